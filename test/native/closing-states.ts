/** States in which a process may end or a worker may be terminated. Each function resolves when its state is reached. */
import * as native from "@lockgate/native";
import { endless, MODEL_PATH } from "./support.ts";

const long = Int32Array.from({ length: 1500 }, () => 65);

/** Time that the JavaScript thread is kept from taking events, so that they pile up. */
const BLOCKED_MS = 200;

async function decoderWith(
  reached: (event: native.DecoderEvent) => boolean,
  options: { slots?: number; prefillChunkTokens?: number } = {},
): Promise<{ model: native.Model; decoder: native.Decoder; there: Promise<void> }> {
  const model = await native.loadModel({ path: MODEL_PATH });
  const { promise, resolve } = Promise.withResolvers<void>();
  const decoder = model.createDecoder({
    ...options,
    onEvents: (events) => {
      if (events.some(reached)) {
        resolve();
      }
    },
  });
  return { model, decoder, there: promise };
}

export const STATES: Readonly<Record<string, () => Promise<void>>> = {
  "a load under way": async () => {
    native.loadModel({ path: MODEL_PATH }).catch(() => {});
  },
  "an idle model": async () => {
    await native.loadModel({ path: MODEL_PATH });
  },
  "a tokenization under way": async () => {
    const model = await native.loadModel({ path: MODEL_PATH });
    model.tokenize("sea ".repeat(200_000)).catch(() => {});
  },
  "an idle decoder": async () => {
    await decoderWith(() => false);
  },
  "a turn just started": async () => {
    const { decoder } = await decoderWith(() => false);
    decoder.run({ turn: 1, slot: 0, prompt: long, maxTokens: 100 });
  },
  "a prefill under way": async () => {
    const { decoder, there } = await decoderWith(({ type }) => type === "prefill", { prefillChunkTokens: 2 });
    decoder.run({ turn: 1, slot: 0, prompt: long, maxTokens: 100 });
    await there;
  },
  "a decode under way": async () => {
    const { model, decoder, there } = await decoderWith(({ type }) => type === "token", { slots: 2 });
    for (const slot of [0, 1]) {
      decoder.run({ turn: slot, slot, prompt: [65, 66], maxTokens: 1900, sampling: endless(model) });
    }
    await there;
  },
  "events queued that nobody takes": async () => {
    const { model, decoder } = await decoderWith(() => false);
    decoder.run({ turn: 1, slot: 0, prompt: [65, 66], maxTokens: 300, sampling: endless(model) });
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, BLOCKED_MS);
  },
  "a decoder whose close is under way": async () => {
    const { decoder } = await decoderWith(() => false);
    decoder.run({ turn: 1, slot: 0, prompt: long, maxTokens: 100 });
    void decoder.close();
  },
  "a log handler": async () => {
    native.setLogHandler(() => {});
    await native.loadModel({ path: MODEL_PATH });
  },
};
