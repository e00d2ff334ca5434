/**
 * One caller as a small state machine: it pulls runs of tokens, and may close, throw or abort. It holds the turn as an orchestrator does,
 * so it always closes it in the end. What it saw is judged here (tokens) and in invariants.ts (outcome, statistics).
 */
import type { DoneStatistics } from "@lockgate/shared-types";
import type { OpenTurn, OwnedTurn } from "../../../gpu-agent/src/replicas/owned-turn.ts";
import type { Admission, ReplicaPool } from "../../../gpu-agent/src/replicas/pool.ts";
import { promptOf, tokenOf } from "./engine-model.ts";
import type { ScheduledProcess } from "./scheduled-process.ts";

/** How an unnatural end was asked for. */
export type Ending = "close" | "throw" | "abort";

const nameOf = (error: unknown): string =>
  error instanceof Error ? `${error.constructor.name} ${error.message}` : "?";

export class Caller {
  readonly number: number;
  readonly maxTokens: number;
  /** `outside` before it was admitted; `rest` between two pulls. */
  state: "outside" | "rest" | "pulling" | "closing" | "ended" = "outside";
  /** A pull was made and has not settled. */
  pullIsOut = false;
  /** Tokens of its answer that it was given. */
  received = 0;
  pulled = false;
  /** What it did itself, in order. */
  readonly endings: Ending[] = [];
  /** The first error that reached it. */
  failure: { readonly error: unknown } | undefined;
  admission: Admission | undefined;
  turn: OwnedTurn | undefined;
  readonly controller = new AbortController();
  abortReason: Error | undefined;
  ownError: Error | undefined;
  /** The engine's process that its GEN was written to. */
  process: ScheduledProcess | undefined;
  /** No replica was usable when it came. */
  foundNone = false;
  /** The replica that it was sent to had closed its queue before. */
  cameToClosed = false;
  /** How its lease came out: `waiting`, `granted`, or the name of the error. */
  lease = "none";
  /** It read its statistics after the end. */
  read = false;
  /** Its end, and what it read, were looked at. */
  judged = false;
  readJudged = false;
  /** What it broke, found when it was given something that is not its own. */
  readonly #broke: (rule: string) => void;
  readonly #say: (words: string) => void;

  constructor(number: number, maxTokens: number, broke: (rule: string) => void, say: (words: string) => void) {
    this.number = number;
    this.maxTokens = maxTokens;
    this.#broke = broke;
    this.#say = say;
  }

  get aborted(): boolean {
    return this.controller.signal.aborted;
  }

  /** Admitted, and not told yet how it ended. */
  get open(): boolean {
    return this.state !== "outside" && this.state !== "ended";
  }

  /** Its engine answered ERR to it. */
  get refused(): boolean {
    return this.process?.refused.has(this.number) ?? false;
  }

  statistics(): DoneStatistics | null {
    return this.turn?.statistics() ?? null;
  }

  admit(pool: ReplicaPool, open: OpenTurn): void {
    const request = { prompt: promptOf(this.number), maxTokens: this.maxTokens, sampling: {}, salt: "" };
    this.foundNone = pool.replicas.every(({ engine }) => !engine?.usable);
    try {
      this.admission = pool.admit(request, this.controller.signal);
      this.turn = open(this.admission, request, this.controller.signal);
      this.cameToClosed = this.admission.engine.leases.closed;
      this.lease = "waiting";
      this.admission.lease.then(
        () => {
          this.lease = "granted";
        },
        (error: unknown) => {
          this.lease = nameOf(error);
        },
      );
      this.state = "rest";
      this.#say(`turn ${this.number} goes to replica ${this.admission.replica.index}`);
    } catch (error) {
      this.#fail(error);
      this.state = "ended";
    }
  }

  pull(): void {
    this.state = "pulling";
    this.pulled = true;
    this.pullIsOut = true;
    this.#held()
      .next()
      .then(
        (run) => {
          this.pullIsOut = false;
          if (run.done) return this.#over();
          this.#take(run.value);
          if (this.state === "pulling") this.state = "rest";
        },
        (error: unknown) => {
          this.pullIsOut = false;
          this.#fail(error);
          this.#over();
        },
      );
  }

  close(): void {
    this.endings.push("close");
    this.#follow(this.#held().return());
  }

  throw(): void {
    this.endings.push("throw");
    this.ownError = new Error("the caller failed");
    this.#follow(this.#held().throw(this.ownError));
  }

  abort(): void {
    this.endings.push("abort");
    this.abortReason = new Error("the client went away");
    this.controller.abort(this.abortReason);
  }

  readStatistics(): void {
    this.read = true;
    const statistics = this.statistics();
    const words = statistics === null ? "none" : `those of a prompt of ${statistics.promptTokens} tokens`;
    this.#say(`turn ${this.number} reads ${words}`);
  }

  /** What tells two states of it apart. */
  fingerprint(): string {
    const statistics = this.statistics();
    return [
      this.state,
      this.received,
      this.pulled ? "p" : "",
      this.endings.join(),
      this.failure === undefined ? "" : nameOf(this.failure.error),
      this.lease,
      this.admission?.replica.index ?? "",
      statistics === null ? "" : `${statistics.promptTokens}${statistics.finish}`,
      this.refused ? "R" : "",
      this.read ? "r" : "",
    ].join(".");
  }

  #held(): OwnedTurn["tokens"] {
    if (this.turn === undefined) throw new Error(`turn ${this.number} was not admitted`);
    return this.turn.tokens;
  }

  #take(ids: readonly number[]): void {
    this.#say(`turn ${this.number} gets ${ids.length > 3 ? `${ids.length} tokens` : ids.join(", ")}`);
    for (const id of ids) {
      if (id !== tokenOf(this.number, this.received++)) this.#broke(`turn ${this.number} was given the token ${id}`);
    }
  }

  #fail(error: unknown): void {
    this.failure ??= { error };
    this.#say(`turn ${this.number} is told: ${error instanceof Error ? error.message : String(error)}`);
  }

  /** A pull told the end: the turn is closed all the same, as `finally` does. */
  #over(): void {
    if (this.state !== "pulling") return;
    this.#follow(this.#held().return());
  }

  #follow(closing: Promise<unknown>): void {
    this.state = "closing";
    closing.then(
      () => this.#end(),
      (error: unknown) => {
        this.#fail(error);
        this.#end();
      },
    );
  }

  #end(): void {
    this.state = "ended";
    this.#say(`turn ${this.number} is over after ${this.received} tokens`);
  }
}
