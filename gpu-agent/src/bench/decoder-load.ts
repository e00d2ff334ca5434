/**
 * The floor of a benchmark: the decoder of one replica through the native module alone, in a process of its own, opened as a replica's host
 * opens it. Callers queue for its slots as they do at a replica; there is no pipe, no HTTP and no other process.
 */
import type { DecoderEvent } from "@lockgate/native";
import { openDecoder } from "../host/open-decoder.ts";
import type { ReplicaHostOptions } from "../host/replica-host.ts";
import { ServedModel } from "../models/served-model.ts";
import { type Answer, BAN_BIAS, type Load, runLoad, serveLoads, type TurnTimes } from "./load.ts";

interface Running {
  readonly tokens: number[];
  readonly startMs: number;
  firstMs: number | undefined;
  readonly resolve: (times: TurnTimes) => void;
  readonly reject: (error: Error) => void;
}

/** Runs loads on the decoder until the benchmark is gone. Rejects with the native module's coded errors where it cannot be opened. */
export const runDecoderLoads = async (options: ReplicaHostOptions): Promise<void> => {
  const vocabulary = await ServedModel.load(options.model, undefined, 0);
  const running = new Map<number, Running>();
  const freeSlots = Array.from({ length: options.slots }, (_, slot) => slot);
  const waiting: ((slot: number) => void)[] = [];
  let turns = 0;

  const onEvent = (event: DecoderEvent): void => {
    const turn = running.get(event.turn);
    if (turn === undefined) throw new Error(`an event of turn ${event.turn}, which does not run`);
    if (event.type === "token") {
      turn.firstMs ??= performance.now();
      turn.tokens.push(event.token);
    } else if (event.type === "done" || event.type === "error") {
      running.delete(event.turn);
      const next = waiting.shift();
      if (next === undefined) freeSlots.push(event.slot);
      else next(event.slot);
      if (event.type === "error") turn.reject(new Error(event.message));
      else turn.resolve(timesOf(turn));
    }
  };
  const timesOf = ({ startMs, firstMs, tokens }: Running): TurnTimes => ({
    ttftMs: (firstMs ?? Number.NaN) - startMs,
    turnMs: performance.now() - startMs,
    answer: () => read(tokens),
  });
  const read = (tokens: readonly number[]): Answer => {
    const { offsets, bytes } = vocabulary.pieceTexts.pieces;
    const pieces = tokens
      .map((token) => bytes.subarray(offsets[token], offsets[token + 1]))
      .filter((piece) => piece.length > 0);
    return { text: Buffer.concat(pieces).toString(), tokens: tokens.length, chunks: pieces.length };
  };

  const { decoder } = await openDecoder(options, (events) => {
    for (const event of events) onEvent(event);
  });

  const turn = async (prompt: Int32Array, { maxTokens, bannedTokens }: Load): Promise<TurnTimes> => {
    const startMs = performance.now();
    const slot = freeSlots.pop() ?? (await new Promise<number>((resolve) => waiting.push(resolve)));
    return new Promise((resolve, reject) => {
      const id = ++turns;
      running.set(id, { tokens: [], startMs, firstMs: undefined, resolve, reject });
      const sampling = { logitBias: bannedTokens.map((token): [number, number] => [token, BAN_BIAS]) };
      decoder.run({ turn: id, slot, prompt, maxTokens, ...(bannedTokens.length === 0 ? {} : { sampling }) });
    });
  };

  await serveLoads(async ({ load }) => {
    const tokenized = await vocabulary.tokenize(load.messages);
    if (!tokenized.ok) throw new Error(tokenized.message);
    return runLoad(load, () => turn(tokenized.prompt, load));
  });
};
