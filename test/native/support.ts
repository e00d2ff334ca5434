/**
 * What the native tests share: the built-in model, its expected answers, and a decoder whose turns are promises.
 * Every turn's events are checked against the order that the contract promises, so each test checks it in passing.
 */
import type { Decoder, DecoderEvent, DecoderOptions, Model, TurnOptions, TurnStatistics } from "@lockgate/native";
import { loadModel } from "@lockgate/native";
import { type ExpectedAnswer, expectedAnswers } from "../helpers/expected-answers.ts";

export const answers = expectedAnswers;

export const MODEL_PATH = new URL("../../gpu-agent/models/tiny-atlas-3m-q8_0.gguf", import.meta.url).pathname;

export type Message = ExpectedAnswer["messages"][number];

/** ChatML, as the built-in model's own template renders it. */
export function renderChat(messages: readonly Message[]): string {
  const turns = messages.map(({ role, content }) => `<|im_start|>${role}\n${content}<|im_end|>\n`);
  return `${turns.join("")}<|im_start|>assistant\n`;
}

export function chatTokens(model: Model, messages: readonly Message[]): Promise<Int32Array> {
  return model.tokenize(renderChat(messages), { parseSpecial: true });
}

export function ask(model: Model, content: string): Promise<Int32Array> {
  return chatTokens(model, [{ role: "user", content }]);
}

/** A prompt of exactly this many tokens. */
export async function promptOfLength(model: Model, length: number, word = " sea"): Promise<Int32Array> {
  const tokens = await model.tokenize(word.repeat(length));
  return tokens.subarray(0, length);
}

export function textOf(model: Model, tokens: readonly number[]): string {
  const { offsets, bytes } = model.pieces();
  return Buffer.concat(tokens.map((token) => bytes.subarray(offsets[token], offsets[token + 1]))).toString();
}

/** Keeps the model from ending its answer, for turns that must last. */
export function endless(model: Model): { logitBias: [number, number][] } {
  return { logitBias: model.info.endTokens.map((token) => [token, -1000]) };
}

export interface TurnResult {
  readonly events: readonly DecoderEvent[];
  readonly tokens: readonly number[];
  /** Undefined when the turn ended in an error event. */
  readonly statistics: TurnStatistics | undefined;
}

/** The order of one turn's events: `resume? prefill* token* done`, or one `error` last. Null when it holds. */
export function orderFault(events: readonly DecoderEvent[]): string | null {
  const kinds = events.map(({ type }) => type).join(" ");
  return /^(resume )?(prefill )*(token )*(done|error)$/.test(kinds) ? null : `events out of order: ${kinds}`;
}

interface Waiting {
  readonly events: DecoderEvent[];
  readonly resolve: (result: TurnResult) => void;
  readonly reject: (error: Error) => void;
}

/** A decoder with promises for turns. `onEvent` sees every event first and may call the decoder. */
export class Bench {
  readonly decoder: Decoder;
  /** Every event of every turn, in the order of delivery. */
  readonly log: DecoderEvent[] = [];
  readonly #waiting = new Map<number, Waiting>();
  #nextTurn = 1;
  #forgiving = false;

  constructor(
    model: Model,
    options: Omit<DecoderOptions, "onEvents"> = {},
    onEvent: (event: DecoderEvent) => void = () => {},
  ) {
    this.decoder = model.createDecoder({
      ...options,
      onEvents: (events) => {
        for (const event of events) {
          onEvent(event);
          this.#take(event);
        }
      },
    });
  }

  #take(event: DecoderEvent): void {
    this.log.push(event);
    const waiting = this.#waiting.get(event.turn);
    if (waiting === undefined) {
      if (this.#forgiving) {
        return;
      }
      throw new Error(`an event of turn ${event.turn}, which does not run: ${event.type}`);
    }
    waiting.events.push(event);
    if (event.type !== "done" && event.type !== "error") {
      return;
    }
    this.#waiting.delete(event.turn);
    const { events } = waiting;
    const fault = orderFault(events);
    if (fault !== null) {
      waiting.reject(new Error(fault));
      return;
    }
    waiting.resolve({
      events,
      tokens: events.flatMap((one) => (one.type === "token" ? [one.token] : [])),
      statistics: event.type === "done" ? event.statistics : undefined,
    });
  }

  /** Starts a turn and gives its number at once. */
  start(options: Omit<TurnOptions, "turn">): { turn: number; result: Promise<TurnResult> } {
    const turn = this.#nextTurn++;
    const { promise, resolve, reject } = Promise.withResolvers<TurnResult>();
    this.#waiting.set(turn, { events: [], resolve, reject });
    try {
      this.decoder.run({ ...options, turn });
    } catch (error) {
      this.#waiting.delete(turn);
      throw error;
    }
    return { turn, result: promise };
  }

  /** From now on events of turns that were started beside this Bench are no fault. */
  forgive(): void {
    this.#forgiving = true;
  }

  run(options: Omit<TurnOptions, "turn">): Promise<TurnResult> {
    return this.start(options).result;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.decoder.close();
  }
}

/** Loads the built-in model and closes it when the scope ends. */
export async function openModel(): Promise<Model & AsyncDisposable> {
  const model = await loadModel({ path: MODEL_PATH });
  return Object.assign(model, { [Symbol.asyncDispose]: () => model.close() });
}

/** The statistics of a turn that must have ended in `done`. */
export function finished(result: TurnResult): TurnStatistics {
  if (result.statistics === undefined) {
    throw new Error(`the turn ended in an error: ${JSON.stringify(result.events.at(-1))}`);
  }
  return result.statistics;
}

/** The code of a thrown value, for assertions. */
export function codeOf(error: unknown): unknown {
  return error instanceof Error && "code" in error ? error.code : error;
}

/** The code that a call throws or rejects with; "allowed" when it does neither. */
export async function outcomeOf(call: () => unknown): Promise<unknown> {
  try {
    await call();
    return "allowed";
  } catch (error) {
    return codeOf(error);
  }
}
