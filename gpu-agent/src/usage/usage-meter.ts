/**
 * What a request's turns used, from the place they reserve to their records. It stands between the orchestrator and the spool: a turn whose
 * record could not be written does not count as finished, since its client must not see the end of what nobody will book.
 */
import type { Log } from "../log.ts";
import type { TurnOutcome } from "../turn/run-turn.ts";
import { type MeteredRequest, type TurnFacts, usageRecordOf } from "./usage-record.ts";
import type { UsageSpool } from "./usage-spool.ts";

/** The account of one request. Whoever opened it disposes of it, on every path: that gives the reserved place back. */
export interface RequestAccount extends Disposable {
  /**
   * Writes the record of the request's `attempt`-th turn, before anybody else hears of its end; `final` if no further one follows. Returns
   * what the turn came to: a finished one without a record has failed.
   */
  readonly settle: (outcome: TurnOutcome, attempt: number, final: boolean) => TurnOutcome;
}

export interface UsageMeter {
  /** Undefined where the spool takes no further turn. */
  open(request: MeteredRequest): RequestAccount | undefined;
}

export interface UsageMeterOptions {
  /** Undefined: nothing is recorded. */
  readonly spool: UsageSpool | undefined;
  readonly agentId: string;
  /** Unix time, ms. */
  readonly nowMs: () => number;
  readonly log: Log;
}

const nothingToGiveBack = (): void => {};

export class SpooledMeter implements UsageMeter {
  readonly #options: UsageMeterOptions;
  #open = 0;
  #idle = Promise.withResolvers<void>();

  constructor(options: UsageMeterOptions) {
    this.#options = options;
    this.#idle.resolve();
  }

  open(request: MeteredRequest): RequestAccount | undefined {
    const { spool, nowMs } = this.#options;
    const giveBack = spool === undefined ? nothingToGiveBack : spool.reserve();
    if (giveBack === undefined) return undefined;
    if (this.#open++ === 0) this.#idle = Promise.withResolvers();
    let startedAtMs = nowMs();
    let closed = false;
    return {
      settle: (outcome, attempt, final) => {
        const endedAtMs = Math.max(startedAtMs, nowMs());
        const settled = this.#settle({
          request,
          agentId: this.#options.agentId,
          attempt,
          final,
          outcome,
          startedAtMs,
          endedAtMs,
        });
        startedAtMs = endedAtMs;
        return settled;
      },
      [Symbol.dispose]: () => {
        if (closed) return;
        closed = true;
        giveBack();
        if (--this.#open === 0) this.#idle.resolve();
      },
    };
  }

  /** Resolves once every account is disposed of. */
  get idle(): Promise<void> {
    return this.#idle.promise;
  }

  #settle(facts: TurnFacts): TurnOutcome {
    const { spool, log } = this.#options;
    const { outcome } = facts;
    if (spool === undefined) return outcome;
    const record = usageRecordOf(facts);
    if (spool.append(record)) return outcome;
    // The log is all that is left of it.
    log("error", "usage_record_lost", { record });
    if (outcome.kind !== "finished") return outcome;
    const { completionTokens, statistics, turn, replica } = outcome;
    return {
      completionTokens,
      statistics,
      turn,
      replica,
      kind: "failed",
      code: "overloaded",
      message: "The usage of this request could not be recorded. Try again.",
      detail: "its usage record was not written",
    };
  }
}
