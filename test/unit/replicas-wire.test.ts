import assert from "node:assert/strict";
import test from "ava";
import fc from "fast-check";
import {
  type EngineMessage,
  type EngineSampling,
  formatGenerate,
  formatStop,
  MAX_SLOTS,
  parseDone,
  parseLine,
  quitLine,
} from "../../gpu-agent/src/replicas/wire.ts";

const fullDone = "12 4165 1830.4 130.2 stop 9 20 4096 811 1024 3 4 5.5 69 7".split(" ");
const names = [
  "generated",
  "promptTokens",
  "promptMs",
  "decodeMs",
  "finish",
  "draftsAccepted",
  "draftsOffered",
  "reused",
  "expertHits",
  "expertLookups",
  "ramBlobs",
  "fileBlobs",
  "fileMb",
  "promptRead",
  "offloaded",
];
const typed = (name: string, word: string): string | number => (name === "finish" ? word : Number(word));

test("every kind of line that an engine sends is read, with and without slot and tag", (t) => {
  const cases: [string, EngineMessage][] = [
    ["RESUME 5", { kind: "resume", reused: 5, slot: -1, turn: -1 }],
    ["BRESUME 2 5 turn=9", { kind: "resume", reused: 5, slot: 2, turn: 9 }],
    ["PP 256 1024 30.5 8393.4", { kind: "prefill", position: 256, total: 1024, ms: 30.5, slot: -1, turn: -1 }],
    ["BPP 0 256 1024 30 8393.4 turn=1", { kind: "prefill", position: 256, total: 1024, ms: 30, slot: 0, turn: 1 }],
    ["T 42", { kind: "token", id: 42, slot: -1, turn: -1 }],
    ["T 42 turn=3", { kind: "token", id: 42, slot: -1, turn: 3 }],
    ["BT 1 42 turn=3", { kind: "token", id: 42, slot: 1, turn: 3 }],
    ["ERR no such thing", { kind: "error", message: "no such thing", slot: -1, turn: -1 }],
    ["BERR 3 5 is not a token turn=8", { kind: "error", message: "5 is not a token", slot: 3, turn: 8 }],
    ["ERR", { kind: "error", message: "", slot: -1, turn: -1 }],
    ["READY 4096", { kind: "ready", maxContext: 4096, capabilities: { stop: false, turns: false, slots: 0 } }],
    [
      "READY 4096 stop turns slots=8 later",
      { kind: "ready", maxContext: 4096, capabilities: { stop: true, turns: true, slots: 8 } },
    ],
    [
      "INFO context=262144 kv=q8_0 device=cuda:0 low=-1 big=99999999999999999999 =x word",
      {
        kind: "info",
        values: new Map<string, string | number>([
          ["context", 262144],
          ["kv", "q8_0"],
          ["device", "cuda:0"],
          ["low", -1],
          ["big", "99999999999999999999"],
        ]),
      },
    ],
    ["HELLO 1 2", { kind: "unknown", line: "HELLO 1 2" }],
    ["", { kind: "unknown", line: "" }],
  ];
  for (const [line, message] of cases) t.deepEqual(parseLine(line), message, line);
});

test("a known first word with numbers that do not parse is malformed", (t) => {
  for (const line of [
    "READY",
    "READY 0",
    "READY many",
    `READY 4096 slots=${MAX_SLOTS + 1}`,
    "READY 4096 slots=99999999999",
    "RESUME",
    "RESUME -1",
    "PP 1 2",
    "PP 1 x 3.0 1",
    "PP 1 2 -3.0 1",
    "PP 1 2 NaN 1",
    "PP 1 2 1e999 1",
    "T",
    "T x",
    "T -1",
    "T 1.5",
    "T 99999999999999999999",
    "BT",
    "BT x 1",
    "BT 1",
    "BDONE",
    "BERR message",
    "DONE",
  ]) {
    t.is(parseLine(line).kind, "malformed", line);
  }
});

test("a malformed line is kept to 200 characters, so that a log stays readable", (t) => {
  const message = parseLine(`T ${"x".repeat(5_000)}`);
  t.true(message.kind === "malformed" && message.line.length === 200);
});

test("DONE of 6, 9, 11, 14, 15 and 16 words is accepted; the counts it leaves out are 0", (t) => {
  for (const count of [6, 9, 11, 14, 15, 16]) {
    const words = fullDone.slice(0, count - 1);
    const expected = Object.fromEntries(
      names.map((name, at) => [name, at < count - 1 ? typed(name, words[at] as string) : 0]),
    );
    // What was read follows from the rest where it is left out.
    if (count < 15) expected.promptRead = Number(expected.promptTokens) - Number(expected.reused);
    t.deepEqual(parseDone(words) as unknown, expected, `${count} words`);
  }
});

test("DONE with an unknown suffix is accepted, 40 words long too", (t) => {
  const long = [...fullDone, ...Array.from({ length: 24 }, (_, at) => `future${at}`)];
  t.is(long.length + 1, 40);
  t.deepEqual(parseDone(long), parseDone(fullDone));
  t.deepEqual(parseDone([...fullDone, "1"]), parseDone(fullDone));
});

test("DONE of 5, 7, 8, 10, 12 or 13 words is malformed", (t) => {
  for (const count of [1, 2, 5, 7, 8, 10, 12, 13]) {
    t.is(typeof parseDone(fullDone.slice(0, count - 1)), "string", `${count} words`);
  }
});

test("DONE with any field that is not a number, negative or infinite is malformed", (t) => {
  for (const [at, name] of names.entries()) {
    for (const bad of ["NaN", "nan", "-1", "", "x", "0x10", "1e999", "Infinity", "1,5"]) {
      t.is(typeof parseDone(fullDone.with(at, bad)), "string", `${name}=${bad}`);
    }
  }
  for (const count of ["generated", "promptTokens", "reused", "promptRead", "offloaded"]) {
    t.is(typeof parseDone(fullDone.with(names.indexOf(count), "1.5")), "string", count);
  }
});

test("DONE with an unknown finish is malformed, with each known one is not", (t) => {
  for (const finish of ["stop", "length", "cancel", "nonfinite", "error"]) {
    t.like(parseDone(fullDone.with(4, finish)), { finish });
  }
  for (const finish of ["done", "STOP", "eos", "0"]) t.is(typeof parseDone(fullDone.with(4, finish)), "string");
});

test("words with = anywhere in DONE are skipped before the words are counted", (t) => {
  const plain = parseDone(fullDone);
  for (const line of [
    `DONE ${fullDone.join(" ")} power=230 t=1`,
    `DONE ${fullDone.join(" ")} power=230 turn=7`,
    `BDONE 4 ${fullDone.join(" ")} a=b turn=7`,
  ]) {
    const message = parseLine(line);
    t.true(message.kind === "done");
    t.deepEqual(message.kind === "done" && message.statistics, plain as never, line);
  }
  t.is(parseLine(`DONE ${fullDone.slice(0, 5).join(" ")} a=1`).kind, "done");
  t.is(parseLine(`DONE ${fullDone.slice(0, 6).join(" ")} a=1 b=2`).kind, "malformed");
});

test("every DONE makes a frozen object of its own", (t) => {
  const [first, second] = [parseDone(fullDone), parseDone(fullDone)];
  t.deepEqual(first, second);
  t.not(first, second);
  t.true(Object.isFrozen(first));
});

test("property: no line makes the parser throw, and what it takes for a number is one", (t) => {
  const word = fc.oneof(
    fc.constantFrom(
      "T",
      "BT",
      "PP",
      "BPP",
      "DONE",
      "BDONE",
      "RESUME",
      "ERR",
      "BERR",
      "READY",
      "INFO",
      "turn=1",
      "a=",
      "=",
    ),
    fc.integer().map(String),
    fc.double().map(String),
    fc.string({ maxLength: 8 }),
  );
  const line = fc.oneof(
    fc.array(word, { maxLength: 20 }).map((words) => words.join(" ")),
    fc.string({ unit: "binary" }),
  );
  t.notThrows(() =>
    fc.assert(
      fc.property(line, (text) => {
        for (const value of Object.values(parseLine(text))) {
          if (typeof value === "number") assert.ok(Number.isFinite(value) && value >= -1);
        }
      }),
      { numRuns: 5_000 },
    ),
  );
});

test("a generation is written with its keys in one order, the tag before the ids", (t) => {
  const sampling: EngineSampling = {
    seed: 7,
    temperature: 0.5,
    topP: 0.9,
    topK: 40,
    minP: 0.05,
    penaltyRepeat: 1.1,
    penaltyFreq: 0.1,
    penaltyPresent: 0.2,
    penaltyLastN: 64,
    logitBias: [
      [5, -100],
      [6, 1.5],
    ],
  };
  const request = { prompt: Int32Array.of(1, 2, 3), maxTokens: 16, sampling, salt: "ab12" };
  t.is(
    formatGenerate(request, { slot: 2, turn: 9 }),
    "BGEN 2 16 temperature=0.5 top_p=0.9 top_k=40 min_p=0.05 penalty_repeat=1.1 penalty_freq=0.1 penalty_present=0.2 " +
      "penalty_last_n=64 seed=7 logit_bias=5:-100,6:1.5 salt=ab12 turn=9 1,2,3\n",
  );
  t.is(
    formatGenerate(
      { prompt: [4], maxTokens: 1, sampling: { logitBias: [] }, salt: "" },
      { slot: undefined, turn: undefined },
    ),
    "GEN 1 4\n",
  );
  const auxiliary = { prompt: [4], maxTokens: 1, sampling: {}, salt: "", embeddingsFile: "e.bin" };
  t.is(formatGenerate(auxiliary, { slot: undefined, turn: 3 }), "GENI 1 turn=3 e.bin 4\n");
});

test("a STOP names its turn where the engine tags, and its slot where it is batched", (t) => {
  t.is(formatStop({ slot: undefined, turn: undefined }), "STOP\n");
  t.is(formatStop({ slot: undefined, turn: 4 }), "STOP turn=4\n");
  t.is(formatStop({ slot: 1, turn: 4 }), "BSTOP 1 turn=4\n");
  t.is(quitLine, "QUIT\n");
});
