/**
 * One replica over its whole life: starts an engine, notices its end, lets it cool down and starts the next. Holds no turn; a turn
 * holds a lease of the engine that was current when it was admitted.
 */
import type { Clock } from "./clock.ts";
import { Engine, type EngineInfo, type SpawnEngine } from "./engine.ts";
import { StartFailed } from "./errors.ts";
import type { HandOver } from "./lease-queue.ts";
import type { ReplicaLimits } from "./limits.ts";

/**
 * starting -> ready -> poisoned -> cooling -> starting …; `failed` when a start cannot succeed, `abandoned` when the process outlived
 * SIGKILL (its devices are not used again), `stopped` at the end.
 */
export type ReplicaState = "starting" | "ready" | "poisoned" | "cooling" | "failed" | "abandoned" | "stopped";

/** Exit codes (sysexits) of an engine that another start would not mend: usage, bad data, no input, no such device, configuration. */
const finalExitCodes: ReadonlySet<number> = new Set([64, 65, 66, 69, 78]);

export interface ReplicaOptions {
  readonly index: number;
  readonly spawn: SpawnEngine;
  readonly clock: Clock;
  readonly limits: ReplicaLimits;
  readonly handOver?: HandOver | undefined;
  /** The engine's cache is gone: router, forget it. */
  readonly onCacheLost?: (index: number) => void;
  readonly onState?: (index: number, state: ReplicaState, reason: string) => void;
}

export class Replica {
  readonly index: number;
  /** Resolves at the first READY; rejects with StartFailed or the last start's error. */
  readonly firstReady: Promise<EngineInfo>;
  engine: Engine | undefined;
  state: ReplicaState = "starting";
  /** Why it is in this state; "" while all is well. */
  reason = "";
  /** Turns admitted and not settled. */
  inflight = 0;
  /** Turns settled since the agent started. */
  served = 0;
  /** Starts after the first. */
  heals = 0;

  readonly #options: ReplicaOptions;
  readonly #firstReady = Promise.withResolvers<EngineInfo>();
  readonly #stop = Promise.withResolvers<void>();
  readonly #life: Promise<void>;
  #stopping = false;

  constructor(options: ReplicaOptions) {
    this.#options = options;
    this.index = options.index;
    this.firstReady = this.#firstReady.promise;
    this.firstReady.catch(() => {}); // the one who starts the pool awaits it
    this.#life = this.#live();
  }

  /** Ends the engine and the healing; resolves when its process is gone (or given up). Idempotent. */
  async stop(): Promise<void> {
    this.#stopping = true;
    this.#stop.resolve();
    await this.engine?.quit();
    await this.#life;
  }

  #become(state: ReplicaState, reason: string): void {
    this.state = state;
    this.reason = reason;
    this.#options.onState?.(this.index, state, reason);
  }

  async #live(): Promise<void> {
    const { limits } = this.#options;
    for (let tries = 1; !this.#stopping; tries++) {
      const outcome = await this.#incarnation();
      if (this.#stopping || outcome.next === "end") break;
      if (outcome.wasReady) tries = 0;
      else if (tries >= limits.readyTries && this.heals === 0) {
        this.#become("failed", outcome.reason);
        this.#firstReady.reject(outcome.error);
        return;
      }
      this.#become("cooling", outcome.reason);
      await this.#pause(outcome.wasReady ? limits.healCooldownMs : limits.readyRetryMs);
      if (outcome.wasReady) this.heals++;
    }
    if (this.state !== "failed" && this.state !== "abandoned") this.#become("stopped", "");
    this.#firstReady.reject(new StartFailed("the replica was stopped", -1));
  }

  /** One engine from spawn to its end. */
  async #incarnation(): Promise<{ next: "heal" | "end"; wasReady: boolean; reason: string; error: unknown }> {
    const { limits, clock, spawn, handOver } = this.#options;
    this.#become("starting", this.reason);
    const lost = Promise.withResolvers<string>();
    const engine = new Engine({ spawn, clock, limits, handOver, onLost: lost.resolve });
    this.engine = engine;
    const timer = clock.after(limits.readyTimeoutMs, () => void engine.poison("it was not READY in time"));
    let wasReady = false;
    let error: unknown;
    try {
      const info = await engine.ready;
      wasReady = true;
      this.#become("ready", "");
      this.#firstReady.resolve(info);
    } catch (failure) {
      error = failure;
    } finally {
      timer.cancel();
    }
    const reason = await lost.promise;
    if (wasReady) {
      this.#options.onCacheLost?.(this.index);
      if (!this.#stopping) this.#become("poisoned", reason);
    }
    const end = await engine.poison(reason);
    if (end === "abandoned") {
      this.#become("abandoned", `process ${engine.process.pid} did not end: ${reason}`);
      this.#firstReady.reject(error ?? new StartFailed(reason, -1));
      return { next: "end", wasReady, reason, error };
    }
    if (error instanceof StartFailed && finalExitCodes.has(error.exitCode)) {
      this.#become("failed", reason);
      this.#firstReady.reject(error);
      return { next: "end", wasReady, reason, error };
    }
    return { next: "heal", wasReady, reason, error };
  }

  async #pause(ms: number): Promise<void> {
    const over = Promise.withResolvers<void>();
    const timer = this.#options.clock.after(ms, over.resolve);
    await Promise.race([over.promise, this.#stop.promise]);
    timer.cancel();
  }
}
