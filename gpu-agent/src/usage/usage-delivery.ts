/**
 * Delivers the spool to the edge: in order, one batch in flight, each record at least once; the edge books a turn id once. A record that the
 * edge refuses for good goes to the reject file, so that it holds nobody up.
 *
 * It never touches a turn: a stream does not wait for the network. It ends when told to; what is left then waits in the spool.
 */
import { MAX_USAGE_BATCH, USAGE_PATH, type UsageBatch, type UsageRecord } from "@lockgate/shared-types";
import type { Log } from "../log.ts";
import type { Clock } from "../replicas/clock.ts";
import { deliveryErrorCode, judgeStatus, nextBatchBound, retryDelayMs } from "./delivery-policy.ts";
import type { EdgePost } from "./edge-post.ts";
import type { UsageSpool } from "./usage-spool.ts";

/** After a record came others are waited for so long, so that a batch is not one record. */
export const LINGER_MS = 100;

export interface UsageDeliveryOptions {
  readonly spool: UsageSpool;
  readonly post: EdgePost;
  readonly agentId: string;
  readonly clock: Clock;
  /** In [0, 1). */
  readonly random: () => number;
  readonly log: Log;
  /** Hears of every attempt that came to nothing, by its deliveryErrorCode. */
  readonly onFailure?: (code: string) => void;
}

export class UsageDelivery {
  readonly #options: UsageDeliveryOptions;
  readonly #abort = new AbortController();
  #loop: Promise<void> | undefined;
  #batchBound = MAX_USAGE_BATCH;
  #appended = Promise.withResolvers<void>();
  #finishing = false;
  #hurry = Promise.withResolvers<void>();
  #error: string | null = null;

  constructor(options: UsageDeliveryOptions) {
    this.#options = options;
  }

  /** Why the last attempt came to nothing (deliveryErrorCode); null when it went through, and before the first. */
  get error(): string | null {
    return this.#error;
  }

  start(): void {
    this.#options.spool.watch(() => this.#appended.resolve());
    this.#loop ??= this.#run();
  }

  /** Sends what is there, tries nothing twice, and ends; within `limitMs`, after which the request in flight is given up. */
  async finish(limitMs: number): Promise<void> {
    this.#finishing = true;
    this.#hurry.resolve();
    const limit = this.#options.clock.after(limitMs, () => this.#abort.abort());
    await this.#loop;
    limit.cancel();
  }

  async #run(): Promise<void> {
    let failures = 0;
    while (!this.#abort.signal.aborted) {
      this.#appended = Promise.withResolvers();
      const progress = await this.#step();
      if (this.#finishing && progress !== "more") return;
      failures = progress === "failed" ? failures + 1 : 0;
      if (progress === "failed") await this.#pause(retryDelayMs(failures, this.#options.random()));
      if (progress === "empty") {
        await Promise.race([this.#appended.promise, this.#hurry.promise]);
        await this.#pause(LINGER_MS);
      }
    }
  }

  /** One batch, or one damaged line. Never rejects. */
  async #step(): Promise<"more" | "empty" | "failed"> {
    const { spool, log } = this.#options;
    try {
      // Delivered only once it is on the disk, else a lost power supply could leave the cursor ahead of the records. A disk that fails
      // there must not hold the records back, though: the edge is then the one place where they are safe.
      await spool.sync();
      const batch = await spool.next(this.#batchBound);
      if (batch.kind === "empty") return "empty";
      if (batch.kind === "damaged") {
        log("error", "usage_line_damaged", { ...batch.end, reason: batch.reason, bytes: batch.line.length });
        await spool.reject(`damaged line: ${batch.reason}`, { line: batch.line });
        await spool.acknowledge(batch.end, 1);
        return "more";
      }
      const { records, end } = batch;
      const status = await this.#send(records);
      const verdict = judgeStatus(status);
      this.#batchBound = nextBatchBound(this.#batchBound, records.length, verdict, MAX_USAGE_BATCH);
      if (verdict === "retry") {
        log("warn", "usage_not_delivered", { status, backlog: spool.backlog });
        return this.#failed(status);
      }
      this.#error = null;
      const [first, ...others] = records;
      if (verdict === "refused" && first !== undefined) {
        if (others.length > 0) return "more";
        log("error", "usage_record_refused", { status, turn: first.turn_id });
        await spool.reject(`the edge answered ${status}`, { record: first });
      }
      await spool.acknowledge(end, records.length);
      return "more";
    } catch (error) {
      if (this.#abort.signal.aborted) return "failed";
      log("warn", "usage_not_delivered", { error: (error as Error).message, backlog: spool.backlog });
      return this.#failed(error);
    }
  }

  #failed(failure: unknown): "failed" {
    this.#error = deliveryErrorCode(failure);
    this.#options.onFailure?.(this.#error);
    return "failed";
  }

  #send(records: readonly UsageRecord[]): Promise<number> {
    const body: UsageBatch = { agent_id: this.#options.agentId, records: [...records] };
    return this.#options.post(USAGE_PATH, JSON.stringify(body), this.#abort.signal);
  }

  async #pause(ms: number): Promise<void> {
    const over = Promise.withResolvers<void>();
    const timer = this.#options.clock.after(ms, over.resolve);
    await Promise.race([over.promise, this.#hurry.promise]);
    timer.cancel();
  }
}
