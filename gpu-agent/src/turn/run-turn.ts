/**
 * One turn, from its place in a replica's queue to its last character: the only place that knows pool, tokens, text and stop strings
 * together. It owns every turn that it opens and closes it on every path.
 *
 * HTTP, JSON and SSE are absent: text goes to a sink, the result is a value. A turn whose engine is lost, silent or nonfinite before a
 * token was read moves to another replica; after that it fails.
 */
import type { DoneStatistics, ErrorCode } from "@lockgate/shared-types";
import { createDetokenizer, type PieceTexts } from "../prompt/detokenizer.ts";
import { createStopMatcher } from "../prompt/stop-strings.ts";
import { EngineLost, EngineRefused, EngineSilent } from "../replicas/errors.ts";
import type { OpenTurn } from "../replicas/owned-turn.ts";
import type { Admission } from "../replicas/pool.ts";
import type { EngineRequest } from "../replicas/wire.ts";
import { DeadlineExceeded } from "./admission-queue.ts";

/** Most replicas that one turn is tried on. */
export const MAX_PLACEMENTS = 4;

/** A sink's word that nobody reads any more. */
export class ClientGone extends Error {}

/** Where the text of a turn goes. */
export interface TurnSink {
  text(piece: string): void;
  /** Called after each run of tokens; a promise is waited for before more is taken. It rejects with ClientGone, which ends the turn as `aborted`. */
  flush(): Promise<void> | undefined;
}

export interface TurnRequest {
  readonly engine: EngineRequest;
  readonly stops: readonly string[];
}

export interface TurnModel {
  readonly pieceTexts: PieceTexts;
  readonly endTokens: ReadonlySet<number>;
}

/** What a turn came to. `completionTokens` are those the caller consumed, the end token included. */
export type TurnOutcome = {
  readonly completionTokens: number;
  /** The turn's own DONE; null when none was read. */
  readonly statistics: DoneStatistics | null;
  /** Number of the last turn that was written to an engine for it, and where. */
  readonly turn: number;
  readonly replica: number;
} & (
  | { readonly kind: "finished"; readonly reason: "stop" | "length" }
  | { readonly kind: "failed"; readonly code: ErrorCode; readonly message: string; readonly detail: string }
  | { readonly kind: "aborted" }
);

export interface TurnContext {
  /** Another place for a turn that lost its replica; rejects with NoReplica or the signal's reason. */
  readonly placeAgain: (request: EngineRequest, signal: AbortSignal) => Promise<Admission>;
  readonly open: OpenTurn;
  readonly model: TurnModel;
  /**
   * Books the `attempt`-th turn of the request (from 1) before anybody hears of its end; what it returns is what the turn came to. `final`
   * for the last one. A turn that never got a place is booked too: somebody may wait to hear how the request ended.
   */
  readonly settle?: (outcome: TurnOutcome, attempt: number, final: boolean) => TurnOutcome;
}

/** Nothing was written to an engine: `turn` and `replica` of such an outcome. */
export const NOWHERE = { completionTokens: 0, statistics: null, turn: -1, replica: -1 } as const;

/** What became of a turn that got no place. */
const neverPlaced = (error: unknown, signal: AbortSignal): TurnOutcome => {
  if (signal.aborted) return { ...NOWHERE, kind: "aborted" };
  const detail = error instanceof Error ? error.message : String(error);
  if (error instanceof DeadlineExceeded) {
    const message = "The request could not start before its deadline.";
    return { ...NOWHERE, kind: "failed", code: "deadline_exceeded", message, detail };
  }
  const message = "No replica of this model is ready. Try again later.";
  return { ...NOWHERE, kind: "failed", code: "overloaded", message, detail };
};

/** Runs a turn once it has its place. Never throws; `signal` must be what the ticket was taken with. */
export const runQueuedTurn = async (
  context: TurnContext,
  place: Promise<Admission>,
  request: TurnRequest,
  signal: AbortSignal,
  sink: TurnSink,
): Promise<TurnOutcome> => {
  let first: Admission;
  try {
    first = await place;
  } catch (error) {
    const outcome = neverPlaced(error, signal);
    return context.settle?.(outcome, 1, true) ?? outcome;
  }
  return runTurn(context, first, request, signal, sink);
};

/** Runs an admitted turn. Never throws; `signal` must be what `first` was admitted with. */
export const runTurn = async (
  context: TurnContext,
  first: Admission,
  request: TurnRequest,
  signal: AbortSignal,
  sink: TurnSink,
): Promise<TurnOutcome> => {
  let admission = first;
  let wasNonfinite = false;
  for (let placements = 1; ; placements++) {
    const { outcome: told, movable } = await attempt(context, admission, request, signal, sink);
    const isNonfinite = told.statistics?.finish === "nonfinite";
    // Nonfinite twice: it is the prompt, or the model, and no replica will do better.
    const isLast = !movable || placements >= MAX_PLACEMENTS || signal.aborted || (isNonfinite && wasNonfinite);
    const outcome = context.settle?.(told, placements, isLast) ?? told;
    if (isLast) return outcome;
    wasNonfinite ||= isNonfinite;
    try {
      admission = await context.placeAgain(request.engine, signal);
    } catch (error) {
      // None is left, or the client has gone meanwhile: what became of the last place stands, but the request is over.
      context.settle?.(neverPlaced(error, signal), placements + 1, true);
      return outcome;
    }
  }
};

interface Attempt {
  readonly outcome: TurnOutcome;
  /** It came to nothing for a reason of its replica, and the caller has seen none of it. */
  readonly movable: boolean;
}

const attempt = async (
  { open, model }: TurnContext,
  admission: Admission,
  { engine, stops }: TurnRequest,
  signal: AbortSignal,
  sink: TurnSink,
): Promise<Attempt> => {
  const turn = open(admission, engine, signal);
  const detokenizer = createDetokenizer(model.pieceTexts);
  const matcher = createStopMatcher(stops);
  let completionTokens = 0;
  let ended = false;
  let stopped = false;
  let flushed: Promise<void> | undefined;
  let failure: unknown;

  try {
    pulling: for (let run = await turn.tokens.next(); !run.done; run = await turn.tokens.next()) {
      for (const id of run.value) {
        if (ended) break pulling; // an engine that runs on past its end token
        completionTokens++;
        if (model.endTokens.has(id)) {
          ended = true;
          continue;
        }
        const { emit, stopped: matched } = matcher.push(detokenizer.push(id));
        if (emit !== "") sink.text(emit);
        if (matched) {
          stopped = true;
          break pulling;
        }
      }
      flushed = sink.flush();
      if (flushed !== undefined) await flushed;
    }
  } catch (error) {
    failure = error;
  } finally {
    try {
      await turn.tokens.return();
    } catch (cleanup) {
      failure ??= cleanup;
    }
  }

  const statistics = turn.statistics();
  const untouched = completionTokens === 0;
  const told = { completionTokens, statistics, turn: admission.turn, replica: admission.replica.index };
  const finished = (reason: "stop" | "length"): Attempt => ({
    outcome: { ...told, kind: "finished", reason },
    movable: false,
  });
  const failed = (code: ErrorCode, message: string, detail: string, movable = false): Attempt => ({
    outcome: { ...told, kind: "failed", code, message, detail },
    movable,
  });

  // An answer that is complete stays complete, also when its engine was lost before DONE: then it has no statistics.
  if (stopped) return finished("stop");
  if (signal.aborted || failure instanceof ClientGone) return { outcome: { ...told, kind: "aborted" }, movable: false };
  if (failure !== undefined && !ended) {
    const detail = failure instanceof Error ? failure.message : String(failure);
    if (failure instanceof EngineRefused) return failed("engine_error", "The engine refused this request.", detail);
    if (failure instanceof EngineLost || failure instanceof EngineSilent) {
      return failed("overloaded", "The replica that ran this request was lost. Try again.", detail, untouched);
    }
    return failed("internal_error", "The request failed inside the gateway.", detail);
  }
  const finish = ended ? "stop" : statistics?.finish;
  if (finish === "nonfinite") return failed("engine_error", "The model's output was not finite.", finish, untouched);
  if (finish !== "stop" && finish !== "length") {
    return failed("engine_error", "The engine ended this request early.", `finish ${finish ?? "none"}`);
  }
  const { emit, stopped: matched } = matcher.end(detokenizer.flush());
  if (emit !== "") sink.text(emit);
  return finished(matched ? "stop" : finish);
};
