/** Every operation in every state: allowed, or refused with its code. And every argument that is checked. */
import * as native from "@lockgate/native";
import test from "ava";
import { Bench, endless, finished, MODEL_PATH, openModel, outcomeOf, promptOfLength } from "./support.ts";

const prompt = [84, 104, 105];

test("a model's operations by state", async (t) => {
  const open = await openModel();
  const closed = await openModel();
  await closed.close();
  const vocabOnly = await native.loadModel({ path: MODEL_PATH, vocabOnly: true });
  const operations = {
    tokenize: (model: native.Model) => model.tokenize("hello"),
    tokenizeSync: (model: native.Model) => model.tokenizeSync("hello"),
    pieces: (model: native.Model) => model.pieces(),
    info: (model: native.Model) => model.info.vocabSize,
    createDecoder: (model: native.Model) => model.createDecoder({ onEvents: () => {} }).close(),
    close: (model: native.Model) => model.close(),
  };
  const seen: Record<string, unknown[]> = {};
  for (const [name, operation] of Object.entries(operations)) {
    seen[name] = [];
    for (const model of [open, vocabOnly, closed]) {
      seen[name].push(await outcomeOf(() => operation(model)));
    }
  }
  t.deepEqual(seen, {
    //              open       vocabulary only         closed
    tokenize: ["allowed", "allowed", "ERR_CLOSED"],
    tokenizeSync: ["allowed", "allowed", "ERR_CLOSED"],
    pieces: ["allowed", "allowed", "ERR_CLOSED"],
    info: ["allowed", "allowed", "allowed"],
    createDecoder: ["allowed", "ERR_INVALID_ARGUMENT", "ERR_CLOSED"],
    close: ["allowed", "allowed", "allowed"],
  });
});

test("a decoder's operations by state", async (t) => {
  await using model = await openModel();
  const long = await promptOfLength(model, 1500);
  const sampling = endless(model);
  const operations = {
    runHere: (bench: Bench) => bench.decoder.run({ turn: 50, slot: 0, prompt, maxTokens: 1 }),
    runSameTurn: (bench: Bench) => bench.decoder.run({ turn: 1, slot: 1, prompt, maxTokens: 1 }),
    stop: (bench: Bench) => bench.decoder.stop(1),
    stopUnknown: (bench: Bench) => bench.decoder.stop(77),
    close: (bench: Bench) => bench.decoder.close(),
  };
  type State = "idle" | "prefilling" | "decoding" | "closing" | "closed";
  /** A decoder of two slots in the state, turn 1 running in slot 0 where one runs. */
  const reach = async (state: State): Promise<Bench> => {
    const reached = Promise.withResolvers<void>();
    const bench: Bench = new Bench(model, { slots: 2, prefillChunkTokens: 4 }, (event) => {
      if ((state === "prefilling" && event.type === "prefill") || event.type === "token") {
        reached.resolve();
      }
    });
    if (state === "prefilling" || state === "decoding") {
      void bench.run({ slot: 0, prompt: state === "prefilling" ? long : prompt, maxTokens: 1900, sampling });
      await reached.promise;
    } else if (state === "closing") {
      void bench.decoder.close();
    } else if (state === "closed") {
      await bench.decoder.close();
    }
    return bench;
  };
  const seen: Record<string, Record<string, unknown>> = {};
  for (const [name, operation] of Object.entries(operations)) {
    const row: Record<string, unknown> = {};
    for (const state of ["idle", "prefilling", "decoding", "closing", "closed"] as const) {
      // A fresh decoder a cell: an operation must not be judged by what the one before it left.
      const bench = await reach(state);
      // Turns that a cell starts itself are none of Bench's; it must not throw over their events.
      row[state] = await outcomeOf(() => operation(bench));
      bench.forgive();
      await bench.decoder.close();
    }
    seen[name] = row;
  }
  const busy = "ERR_SLOT_BUSY";
  const gone = "ERR_CLOSED";
  const always = { idle: "allowed", prefilling: "allowed", decoding: "allowed", closing: "allowed", closed: "allowed" };
  t.deepEqual(seen, {
    runHere: { idle: "allowed", prefilling: busy, decoding: busy, closing: gone, closed: gone },
    runSameTurn: {
      idle: "allowed",
      prefilling: "ERR_INVALID_ARGUMENT",
      decoding: "ERR_INVALID_ARGUMENT",
      closing: gone,
      closed: gone,
    },
    stop: always,
    stopUnknown: always,
    close: always,
  });
});

test("a turn that was refused leaves its slot usable and gives no event", async (t) => {
  await using model = await openModel();
  await using bench = new Bench(model, { contextTokens: 64 });
  const refuse = (options: { prompt: number[]; slot?: number }): Promise<unknown> =>
    outcomeOf(() => bench.decoder.run({ turn: 9, slot: 0, maxTokens: 1, ...options }));
  t.is(await refuse({ prompt: Array(64).fill(65) }), "ERR_CONTEXT_EXCEEDED");
  t.is(await refuse({ prompt: [1024] }), "ERR_INVALID_ARGUMENT");
  t.is(await refuse({ prompt: [] }), "ERR_INVALID_ARGUMENT");
  t.is(await refuse({ prompt: [1], slot: 1 }), "ERR_INVALID_ARGUMENT");
  t.deepEqual(bench.log, []);
  t.is(finished(await bench.run({ slot: 0, prompt: Array(63).fill(65), maxTokens: 3 })).generated, 1);
});

test("every wrong argument is refused with a message that names it", async (t) => {
  await using model = await openModel();
  await using bench = new Bench(model);
  const run = (patch: object) => () => bench.decoder.run({ turn: 1, slot: 0, prompt, maxTokens: 1, ...patch });
  const decoder = (patch: object) => () => model.createDecoder({ onEvents: () => {}, ...patch });
  // Wrong on purpose: what TypeScript forbids, a JavaScript caller may still do.
  const loose = native as unknown as Record<"loadModel" | "setLogHandler", (...args: unknown[]) => unknown>;
  const cases: [string, () => unknown][] = [
    ["turn", run({ turn: -1 })],
    ["turn", run({ turn: 1.5 })],
    ["turn", run({ turn: 2 ** 53 })],
    ["slot", run({ slot: 1 })],
    ["slot", run({ slot: "0" })],
    ["prompt", run({ prompt: "hello" })],
    ["prompt[1]", run({ prompt: [1, 2.5] })],
    ["prompt[0]", run({ prompt: [-1] })],
    ["prompt[2]", run({ prompt: Int32Array.of(1, 2, 1024) })],
    ["maxTokens", run({ maxTokens: 0 })],
    ["maxTokens", run({ maxTokens: undefined })],
    ["salt", run({ salt: 5 })],
    ["sampling", run({ sampling: 5 })],
    ["sampling.temperature", run({ sampling: { temperature: -1 } })],
    ["sampling.temperature", run({ sampling: { temperature: Number.NaN } })],
    ["sampling.topP", run({ sampling: { topP: 0 } })],
    ["sampling.topK", run({ sampling: { topK: -1 } })],
    ["sampling.minP", run({ sampling: { minP: 2 } })],
    ["sampling.penaltyRepeat", run({ sampling: { penaltyRepeat: 0 } })],
    ["sampling.penaltyFreq", run({ sampling: { penaltyFreq: Number.POSITIVE_INFINITY } })],
    ["sampling.penaltyLastN", run({ sampling: { penaltyLastN: -2 } })],
    ["sampling.seed", run({ sampling: { seed: 2 ** 32 } })],
    ["sampling.logitBias", run({ sampling: { logitBias: [[1]] } })],
    ["sampling.logitBias", run({ sampling: { logitBias: [[1024, 1]] } })],
    ["slots", decoder({ slots: 65 })],
    ["slots", decoder({ slots: 0 })],
    ["contextTokens", decoder({ contextTokens: 2049 })],
    ["contextTokens", decoder({ contextTokens: 1 })],
    ["kvType", decoder({ kvType: "q5_0" })],
    ["threads", decoder({ threads: 0 })],
    ["prefillChunkTokens", decoder({ contextTokens: 64, prefillChunkTokens: 65 })],
    ["onEvents", decoder({ onEvents: null })],
    ["text", () => model.tokenize(5 as unknown as string)],
    ["text", () => model.tokenizeSync(5 as unknown as string)],
    ["path", () => loose.loadModel({})],
    ["options", () => loose.loadModel()],
    ["devices", () => loose.loadModel({ path: MODEL_PATH, devices: [] })],
    ["signal", () => loose.loadModel({ path: MODEL_PATH, signal: 1 })],
    ["handler", () => loose.setLogHandler(5)],
    ["cores", () => native.setCpuAffinity([])],
    ["cores", () => native.setCpuAffinity([4095])],
  ];
  for (const [name, call] of cases) {
    const error = await t.throwsAsync(async () => call(), undefined, name);
    t.is(await outcomeOf(() => Promise.reject(error)), "ERR_INVALID_ARGUMENT", name);
    t.true(error?.message.startsWith(name), `"${error?.message}" names ${name}`);
  }
  t.deepEqual(bench.log, []);
});

test("tokenize gives what pieces give back, whatever the text", async (t) => {
  await using model = await openModel();
  for (const text of ["", "hello", "\u0000", "🇵🇹 naïve — 漢字", "<|im_end|>", "x".repeat(100_000)]) {
    const tokens = await model.tokenize(text);
    const { offsets, bytes } = model.pieces();
    const back = Buffer.concat([...tokens].map((token) => bytes.subarray(offsets[token], offsets[token + 1])));
    t.is(back.toString(), text);
    t.deepEqual(model.tokenizeSync(text), tokens);
  }
  t.deepEqual([...(await model.tokenize("<|im_end|>", { parseSpecial: true }))], [1023]);
  const { offsets } = model.pieces();
  t.is(offsets.length, model.info.vocabSize + 1);
  t.is(offsets[1023], offsets[1024], "a control token has no bytes");
  t.is(model.pieces(), model.pieces());
});
