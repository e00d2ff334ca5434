/**
 * Disposes of decoders and their models in every state, round after round: `dispose-child.ts ROUNDS SEED [MODULE]`. MODULE is another build of
 * the native module. Says how many disposals there were and how often each state was met; a crash is the process's own end.
 *
 * The decode thread goes on while a disposal begins, so that where in a batch it comes differs from round to round; the seed draws the rest.
 */
import { seededRandom } from "../helpers/seeded-random.ts";

type Native = typeof import("@lockgate/native");
type Model = Awaited<ReturnType<Native["loadModel"]>>;
type Decoder = ReturnType<Model["createDecoder"]>;
type DecoderEvent = Parameters<Parameters<Model["createDecoder"]>[0]["onEvents"]>[0][number];

const [rounds = "1", seed = "1", nativeModule = "@lockgate/native"] = process.argv.slice(2);
const native = (await import(nativeModule)) as Native;
const modelPath = new URL("../../gpu-agent/models/tiny-atlas-3m-q8_0.gguf", import.meta.url).pathname;
const random = seededRandom(Number(seed));

/** Decoders that one model sees, at most; models are disposed of as well, and a load costs more than all else here. */
const DECODERS_A_MODEL = 10;
/** Tokens, at most, that a decode has given before it is disposed of. */
const MAX_TOKENS_BEFORE = 20;
const BLOCKED_MS = 3;
const longPrompt = Int32Array.from({ length: 400 }, () => 65);
const shortPrompt = [65, 66, 67];

/** One decoder of two slots on its way to a state. `dispose` may be called inside its event callback. */
interface Subject {
  readonly model: Model;
  readonly decoder: Decoder;
  /** Resolves at the first event that fits, after `act` was called with it inside the callback. */
  readonly when: (fits: (event: DecoderEvent) => boolean, act?: () => void) => Promise<void>;
  readonly dispose: () => void;
  readonly start: (turn: number, prompt: Int32Array | readonly number[], maxTokens?: number) => void;
}

const prefill = ({ type }: DecoderEvent): boolean => type === "prefill";
const nthToken = (): ((event: DecoderEvent) => boolean) => {
  let left = 1 + Math.floor(random() * MAX_TOKENS_BEFORE);
  return ({ type }) => type === "token" && --left === 0;
};

/** Brings the subject to the state and disposes of it there. */
const states: Readonly<Record<string, (subject: Subject) => Promise<void> | void>> = {
  idle: ({ dispose }) => dispose(),
  "a turn just started": ({ start, dispose }) => {
    start(0, longPrompt);
    dispose();
  },
  prefill: async ({ start, when, dispose }) => {
    start(0, longPrompt);
    await when(prefill);
    dispose();
  },
  "prefill, inside its event": async ({ start, when, dispose }) => {
    start(0, longPrompt);
    await when(prefill, dispose);
  },
  decode: async ({ start, when, dispose }) => {
    start(0, shortPrompt);
    start(1, shortPrompt);
    await when(nthToken());
    dispose();
  },
  "decode, inside its event": async ({ start, when, dispose }) => {
    start(0, shortPrompt);
    await when(nthToken(), dispose);
  },
  "one slot decodes, the other prefills": async ({ start, when, dispose }) => {
    start(0, shortPrompt);
    await when(({ type }) => type === "token");
    start(1, longPrompt);
    await when((event) => prefill(event) && event.turn === 1, dispose);
  },
  "cancelled, its done not yet here": async ({ start, decoder, when, dispose }) => {
    start(0, shortPrompt);
    await when(nthToken());
    decoder.stop(0);
    dispose();
  },
  "done, inside its event": async ({ start, when, dispose }) => {
    start(0, shortPrompt, 1 + Math.floor(random() * MAX_TOKENS_BEFORE));
    await when(({ type }) => type === "done", dispose);
  },
  "events queued that nobody took": ({ start, dispose }) => {
    start(0, shortPrompt);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, BLOCKED_MS);
    dispose();
  },
};

/** Reaches the state with a decoder of its own, disposes, and waits for the end of the decoder. */
const disposeIn = async (state: string, model: Model, alsoTheModel: boolean): Promise<void> => {
  const watching = new Set<(event: DecoderEvent) => void>();
  let running = 0;
  const decoder = model.createDecoder({
    slots: 2,
    contextTokens: 512,
    prefillChunkTokens: 32,
    onEvents: (events) => {
      for (const event of events) {
        if (event.type === "done" || event.type === "error") running--;
        for (const watch of watching) watch(event);
      }
    },
  });
  const closed: Promise<void>[] = [];
  const twice = random() < 0.5;
  const modelFirst = random() < 0.5;
  await states[state]?.({
    model,
    decoder,
    when: (fits, act) =>
      new Promise((resolve) => {
        const watch = (event: DecoderEvent) => {
          if (!fits(event)) return;
          watching.delete(watch);
          act?.();
          resolve();
        };
        watching.add(watch);
      }),
    start: (turn, prompt, maxTokens = 100) => {
      const logitBias = model.info.endTokens.map((token): [number, number] => [token, -1000]);
      decoder.run({ turn, slot: turn, prompt, maxTokens, sampling: { logitBias } });
      running++;
    },
    dispose: () => {
      if (alsoTheModel && modelFirst) closed.push(model.close());
      closed.push(decoder.close());
      if (twice) closed.push(decoder.close());
      if (alsoTheModel && !modelFirst) closed.push(model.close());
    },
  });
  await Promise.all(closed);
  if (running !== 0) throw new Error(`${state}: ${running} turns got no end`);
};

const met: Record<string, number> = {};
const names = Object.keys(states);
let model = await native.loadModel({ path: modelPath });
for (let round = 0; round < Number(rounds); round++) {
  const state = names[round % names.length] as string;
  // The n-th decoder of a model and the n-th state would always meet, were it not drawn.
  const alsoTheModel = random() < 1 / DECODERS_A_MODEL;
  await disposeIn(state, model, alsoTheModel);
  met[state] = (met[state] ?? 0) + 1;
  if (alsoTheModel) model = await native.loadModel({ path: modelPath });
}
await model.close();
console.log(JSON.stringify({ disposals: Number(rounds), met }));
