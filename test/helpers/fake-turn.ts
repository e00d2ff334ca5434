/**
 * One turn through the real orchestrator, over engines whose events a test fires: a vocabulary of a few tokens, a sink that records, and
 * the outcome when there is one.
 */
import { createPieceTexts } from "../../gpu-agent/src/prompt/detokenizer.ts";
import { openOwnedTurn } from "../../gpu-agent/src/replicas/owned-turn.ts";
import type { EngineRequest } from "../../gpu-agent/src/replicas/wire.ts";
import {
  runTurn,
  type TurnContext,
  type TurnModel,
  type TurnOutcome,
  type TurnSink,
} from "../../gpu-agent/src/turn/run-turn.ts";
import { doneLine, type FakeFleet, type FakeProcess, promiseJobs, requestOf, startFleet } from "./fake-engine.ts";

/** Token ids are places in this list; the first ends a generation and has no text, the last two are halves of one character. */
const pieces = ["", "a", "b", "E", "N", "D", "xEy", Uint8Array.of(0xc3), Uint8Array.of(0xa9)];
export const END = 0;
export const [A, B, E, N, D, XEY, HALF, OTHER_HALF] = [1, 2, 3, 4, 5, 6, 7, 8];
export const OUTSIDE = pieces.length;

const model: TurnModel = (() => {
  const all = pieces.map((piece) => (typeof piece === "string" ? Buffer.from(piece) : piece));
  const offsets = Uint32Array.from([
    0,
    ...all.map((_, at) => all.slice(0, at + 1).reduce((sum, { length }) => sum + length, 0)),
  ]);
  return { pieceTexts: createPieceTexts({ offsets, bytes: Buffer.concat(all) }), endTokens: new Set([END]) };
})();

export class RecordingSink implements TurnSink {
  /** Text of each flush that had any. */
  readonly flushed: string[] = [];
  #pending = "";
  /** What the next flushes answer. */
  answers: (Promise<void> | undefined)[] = [];

  text(piece: string): void {
    this.#pending += piece;
  }

  flush(): Promise<void> | undefined {
    if (this.#pending !== "") this.flushed.push(this.#pending);
    this.#pending = "";
    return this.answers.shift();
  }

  /** Everything, flushed or not. */
  get all(): string {
    return this.flushed.join("") + this.#pending;
  }
}

export interface Running {
  readonly fleet: FakeFleet;
  readonly sink: RecordingSink;
  readonly abort: AbortController;
  /** The outcome, once there is one. */
  readonly result: { outcome: TurnOutcome | undefined };
  readonly outcome: Promise<TurnOutcome>;
  readonly process: FakeProcess;
  /** Tokens of turn `turn` come in one chunk. */
  tokens(ids: readonly number[], turn?: number): Promise<void>;
  done(generated: number, finish?: string, turn?: number): Promise<void>;
}

export const begin = async (
  fleet: FakeFleet,
  stops: readonly string[] = [],
  settle: NonNullable<TurnContext["settle"]> = (outcome) => outcome,
): Promise<Running> => {
  const abort = new AbortController();
  const engine = requestOf(4);
  const admission = fleet.pool.admit(engine, abort.signal);
  const sink = new RecordingSink();
  const placeAgain = async (request: EngineRequest, signal: AbortSignal) => fleet.pool.admit(request, signal);
  const context = { placeAgain, open: openOwnedTurn, model, settle };
  const outcome = runTurn(context, admission, { engine, stops }, abort.signal, sink);
  const result: Running["result"] = { outcome: undefined };
  void outcome.then((told) => {
    result.outcome = told;
  });
  await promiseJobs();
  const process = fleet.process(admission.replica.index);
  return {
    fleet,
    sink,
    abort,
    result,
    outcome,
    process,
    tokens: (ids, turn = admission.turn) => process.say(...ids.map((id) => `T ${id} turn=${turn}`)),
    done: (generated, finish = "stop", turn = admission.turn) =>
      process.say(`${doneLine(generated, 4, finish)} turn=${turn}`),
  };
};

export const start = async (stops?: readonly string[], replicas = 1): Promise<Running> =>
  begin(await startFleet(replicas), stops);

export const stopsWritten = ({ process }: Running): number =>
  process.written.filter((line) => line.startsWith("STOP")).length;
export const allFree = ({ fleet }: Running): boolean =>
  fleet.pool.inflight === 0 && fleet.pool.replicas.every(({ engine }) => (engine?.leases.held ?? 0) === 0);
