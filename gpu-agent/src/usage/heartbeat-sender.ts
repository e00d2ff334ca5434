/**
 * Sends heartbeats: one after each interval, and one at once when something changed that the edge should not learn late. One is in flight
 * at a time; one that got no answer is not repeated, since the next says more.
 */
import { HEARTBEAT_PATH, type Heartbeat } from "@lockgate/shared-types";
import type { Log } from "../log.ts";
import type { Clock } from "../replicas/clock.ts";
import type { EdgePost } from "./edge-post.ts";

export interface HeartbeatSenderOptions {
  /** The heartbeat as it is now. */
  readonly beat: () => Heartbeat;
  readonly post: EdgePost;
  readonly intervalMs: number;
  readonly clock: Clock;
  readonly log: Log;
}

export class HeartbeatSender {
  readonly #options: HeartbeatSenderOptions;
  readonly #abort = new AbortController();
  #due = Promise.withResolvers<void>();
  #hurried = false;
  #ending = false;
  #loop: Promise<void> | undefined;
  #arrived = true;

  constructor(options: HeartbeatSenderOptions) {
    this.#options = options;
  }

  start(): void {
    this.#loop ??= this.#run();
  }

  /** Sends the next one now, or right after the one in flight. */
  hurry(): void {
    this.#hurried = true;
    this.#due.resolve();
  }

  /** Ends when the one in flight, and one that hurry() has asked for since, are answered; gives up what is not within `limitMs`. */
  async finish(limitMs: number): Promise<void> {
    this.#ending = true;
    this.#due.resolve();
    const limit = this.#options.clock.after(limitMs, () => this.#abort.abort());
    await this.#loop;
    limit.cancel();
  }

  /** Ends; a heartbeat in flight is given up. */
  async stop(): Promise<void> {
    this.#abort.abort();
    await this.finish(0);
  }

  async #run(): Promise<void> {
    const { clock, intervalMs } = this.#options;
    do {
      this.#hurried = false;
      this.#due = Promise.withResolvers();
      const timer = clock.after(intervalMs, () => this.#due.resolve());
      await this.#send();
      if (!this.#ending) await this.#due.promise;
      timer.cancel();
    } while (!this.#abort.signal.aborted && (!this.#ending || this.#hurried));
  }

  async #send(): Promise<void> {
    const { beat, post } = this.#options;
    try {
      const status = await post(HEARTBEAT_PATH, JSON.stringify(beat()), this.#abort.signal);
      this.#tell(status >= 200 && status < 300, { status });
    } catch (error) {
      this.#tell(false, { error: (error as Error).message });
    }
  }

  /** Logs when it changes, not each time. */
  #tell(arrived: boolean, why: Readonly<Record<string, unknown>>): void {
    if (arrived === this.#arrived || this.#abort.signal.aborted) return;
    this.#arrived = arrived;
    if (arrived) this.#options.log("info", "heartbeats_arrive");
    else this.#options.log("warn", "heartbeats_do_not_arrive", why);
  }
}
