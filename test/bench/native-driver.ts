/**
 * The floor of the bench: the decoder through the native module alone, in a process of its own. Callers queue for its slots as they do at
 * a replica; there is no pipe, no HTTP and no other process.
 */
import { type DecoderEvent, loadModel } from "@lockgate/native";
import { ServedModel } from "../../gpu-agent/src/models/served-model.ts";
import { runLoad, serveLoads, type TurnTimes } from "./load.ts";
import { BUILT_IN_MODEL_PATH } from "./places.ts";
import { checkAnswer, MAX_TOKENS, MESSAGES } from "./question.ts";

const slots = Number(process.argv[2]);

const vocabulary = await ServedModel.load(BUILT_IN_MODEL_PATH, undefined, 0);
const tokenized = await vocabulary.tokenize(MESSAGES);
await vocabulary.close();
if (!tokenized.ok) throw new Error(tokenized.message);
const { prompt } = tokenized;

interface Running {
  readonly tokens: number[];
  readonly startMs: number;
  ttftMs: number;
  readonly resolve: (times: TurnTimes) => void;
  readonly reject: (error: Error) => void;
}

const running = new Map<number, Running>();
const freeSlots = Array.from({ length: slots }, (_, slot) => slot);
const waiting: ((slot: number) => void)[] = [];

const onEvent = (event: DecoderEvent): void => {
  const turn = running.get(event.turn);
  if (turn === undefined) throw new Error(`an event of turn ${event.turn}, which does not run`);
  if (event.type === "token") {
    if (turn.tokens.length === 0) turn.ttftMs = performance.now() - turn.startMs;
    turn.tokens.push(event.token);
  } else if (event.type === "done" || event.type === "error") {
    running.delete(event.turn);
    const next = waiting.shift();
    if (next === undefined) freeSlots.push(event.slot);
    else next(event.slot);
    if (event.type === "error") turn.reject(new Error(event.message));
    else turn.resolve({ ttftMs: turn.ttftMs, check: () => countTexts(turn.tokens) });
  }
};

const model = await loadModel({ path: BUILT_IN_MODEL_PATH });
const decoder = model.createDecoder({
  slots,
  onEvents: (events) => {
    for (const event of events) onEvent(event);
  },
});

/** Tokens with text, which together must be the expected answer. */
const countTexts = (tokens: readonly number[]): number => {
  const { offsets, bytes } = model.pieces();
  const texts = tokens
    .map((token) => bytes.subarray(offsets[token], offsets[token + 1]))
    .filter((text) => text.length > 0);
  checkAnswer(Buffer.concat(texts).toString());
  return texts.length;
};

let turns = 0;

const run = async (): Promise<TurnTimes> => {
  const startMs = performance.now();
  const slot = freeSlots.pop() ?? (await new Promise<number>((resolve) => waiting.push(resolve)));
  return new Promise((resolve, reject) => {
    const turn = ++turns;
    running.set(turn, { tokens: [], startMs, ttftMs: Number.NaN, resolve, reject });
    decoder.run({ turn, slot, prompt, maxTokens: MAX_TOKENS });
  });
};

serveLoads(({ load }) => runLoad(load, run));
