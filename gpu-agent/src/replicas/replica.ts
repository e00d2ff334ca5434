/**
 * One replica over its whole life: starts an engine, notices its end, lets it cool down and starts the next. Holds no turn; a turn
 * holds a lease of the engine that was current when it was admitted. Its states are replica-state.ts's, its pauses heal.ts's.
 */
import type { Clock } from "./clock.ts";
import { Engine, type EngineInfo, type SpawnEngine } from "./engine.ts";
import { StartFailed } from "./errors.ts";
import { healPauseMs, lossesInARow } from "./heal.ts";
import type { HandOver } from "./lease-queue.ts";
import type { ReplicaLimits } from "./limits.ts";
import { type LifeEvent, type LifeState, nextState, type ReplicaState, shownState } from "./replica-state.ts";
import { type StallWatch, watchForStall } from "./stall-watchdog.ts";

export type { ReplicaState } from "./replica-state.ts";

/** Exit codes of an engine that another start would not mend: usage, bad data, no input, no such device, configuration (sysexits), and a
 * command that cannot be run or is not there (126, 127). */
const finalExitCodes: ReadonlySet<number> = new Set([64, 65, 66, 69, 78, 126, 127]);

export interface ReplicaOptions {
  readonly index: number;
  readonly spawn: SpawnEngine;
  readonly clock: Clock;
  readonly limits: ReplicaLimits;
  readonly handOver?: HandOver | undefined;
  /** Looks for an engine that hangs; absent: only its silence tells. */
  readonly stallWatch?: StallWatch | undefined;
  /** Unix time, ms; for what is shown. */
  readonly wallNow?: () => number;
  /** The engine's cache is gone: router, forget it. */
  readonly onCacheLost?: (index: number) => void;
  /** `healAtMs`: Unix time of the next start, ms, while one is due. */
  readonly onState?: (index: number, state: LifeState, reason: string, healAtMs: number | undefined) => void;
}

/** What an engine's life came to. */
interface Ended {
  readonly outcome: "heal" | "final" | "abandoned";
  /** How long it was READY, ms; undefined for never. */
  readonly readyForMs: number | undefined;
  readonly reason: string;
  readonly error: unknown;
}

export class Replica {
  readonly index: number;
  /** Resolves at the first READY; rejects with StartFailed or the last start's error. */
  readonly firstReady: Promise<EngineInfo>;
  engine: Engine | undefined;
  /** Why it is in this state, or while it starts and heals, why it was lost; "" while all is well. */
  reason = "";
  /** Unix time, ms, since which it is in the machine's state (busy counts as ready). */
  sinceMs: number;
  /** Unix time, ms, of its next start; undefined unless it heals. */
  healAtMs: number | undefined;
  /** Turns admitted and not settled. */
  inflight = 0;
  /** Turns settled since the agent started. */
  served = 0;
  /** Number of the turn that was admitted last; 0 for none. */
  lastTurn = 0;
  /** Starts after its first READY. */
  heals = 0;

  readonly #options: ReplicaOptions;
  readonly #wallNow: () => number;
  readonly #firstReady = Promise.withResolvers<EngineInfo>();
  readonly #stop = Promise.withResolvers<void>();
  readonly #life: Promise<void>;
  #limits: ReplicaLimits;
  #state: LifeState = "starting";
  #stopping = false;

  constructor(options: ReplicaOptions) {
    this.#options = options;
    this.#limits = options.limits;
    this.#wallNow = options.wallNow ?? Date.now;
    this.index = options.index;
    this.sinceMs = this.#wallNow();
    this.firstReady = this.#firstReady.promise;
    this.firstReady.catch(() => {}); // the one who starts the pool awaits it
    options.onState?.(this.index, "starting", "", undefined);
    this.#life = this.#live();
  }

  get state(): ReplicaState {
    return shownState(this.#state, this.engine?.leases.free ?? 0);
  }

  /** Takes new bounds, from the next start of an engine on. */
  setLimits(limits: ReplicaLimits): void {
    this.#limits = limits;
  }

  /** From now on nothing is started again; what runs goes on. Idempotent. */
  drain(): void {
    if (this.#stopping) return;
    this.#stopping = true;
    this.#become("drain", this.reason);
    this.#stop.resolve();
  }

  /** Ends the engine and the healing; resolves when its process is gone (or given up). Idempotent. */
  async stop(): Promise<void> {
    this.drain();
    await this.engine?.quit();
    await this.#life;
  }

  /** As stop, but the process is killed and asked nothing. */
  async kill(): Promise<void> {
    this.drain();
    await this.engine?.poison("the agent was told to end at once");
    await this.#life;
  }

  #become(event: LifeEvent, reason: string, pauseMs?: number): void {
    const state = nextState(this.#state, event);
    if (state === this.#state) return;
    this.#state = state;
    this.reason = reason;
    this.sinceMs = this.#wallNow();
    this.healAtMs = pauseMs === undefined ? undefined : this.sinceMs + pauseMs;
    this.#options.onState?.(this.index, state, reason, this.healAtMs);
  }

  async #live(): Promise<void> {
    let losses = 0;
    let wasReady = false;
    for (let tries = 1; ; tries++) {
      const { outcome, readyForMs, reason, error } = await this.#incarnation();
      wasReady ||= readyForMs !== undefined;
      if (outcome === "abandoned") {
        this.#become("outlived", `process ${this.engine?.process.pid} did not end: ${reason}`);
        this.#firstReady.reject(error ?? new StartFailed(reason, -1));
        return;
      }
      if (this.#stopping) break;
      // Final is a first start alone: a replica that was READY once may have lost its file or its device for a while.
      if (!wasReady && (outcome === "final" || tries >= this.#limits.readyTries)) {
        this.#become("end", reason);
        this.#firstReady.reject(error);
        return;
      }
      losses = lossesInARow(losses, readyForMs ?? 0);
      const pauseMs = wasReady ? healPauseMs(losses, this.#limits.healCooldownMs) : this.#limits.readyRetryMs;
      this.#become("cool", reason, pauseMs);
      await this.#pause(pauseMs);
      if (this.#stopping) break;
      if (wasReady) this.heals++;
      this.#become("spawn", reason);
    }
    this.#become("end", "");
    this.#firstReady.reject(new StartFailed("the replica was stopped", -1));
  }

  /** One engine from spawn to its end. */
  async #incarnation(): Promise<Ended> {
    const { clock, spawn, handOver, stallWatch } = this.#options;
    const limits = this.#limits;
    const lost = Promise.withResolvers<string>();
    const engine = new Engine({
      spawn,
      clock,
      limits,
      handOver,
      onLost: lost.resolve,
      onQuarantine: (reason) => this.#become("stuck", reason),
    });
    this.engine = engine;
    const timer = clock.after(limits.readyTimeoutMs, () => void engine.poison("it was not READY in time"));
    let readyAtMs: number | undefined;
    let error: unknown;
    try {
      const info = await engine.ready;
      readyAtMs = clock.now();
      this.#become("ready", "");
      this.#firstReady.resolve(info);
    } catch (failure) {
      error = failure;
    } finally {
      timer.cancel();
    }
    const watch =
      readyAtMs !== undefined && stallWatch !== undefined
        ? watchForStall(engine, clock, stallWatch, (reason) => void engine.poison(reason))
        : undefined;
    const reason = await lost.promise;
    watch?.cancel();
    const readyForMs = readyAtMs === undefined ? undefined : clock.now() - readyAtMs;
    if (readyForMs !== undefined) {
      this.#options.onCacheLost?.(this.index);
      this.#become("lost", reason);
    }
    const end = await engine.poison(reason);
    const isFinal = error instanceof StartFailed && finalExitCodes.has(error.exitCode);
    const outcome = end === "abandoned" ? "abandoned" : isFinal ? "final" : "heal";
    return { outcome, readyForMs, reason, error };
  }

  async #pause(ms: number): Promise<void> {
    const over = Promise.withResolvers<void>();
    const timer = this.#options.clock.after(ms, over.resolve);
    await Promise.race([over.promise, this.#stop.promise]);
    timer.cancel();
  }
}
