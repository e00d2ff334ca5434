/**
 * Engines whose every event a test fires: a clock that moves when told, and processes that speak, close and exit when told. What is
 * built on them (engine, replica, pool) is the real thing.
 *
 * There is no operating system here: pipes, signals and real time are the integration tests' matter.
 */
import { createHash } from "node:crypto";
import type { Clock, Timer } from "../../gpu-agent/src/replicas/clock.ts";
import type { EngineEvents, EngineExit, EngineProcess, SpawnEngine } from "../../gpu-agent/src/replicas/engine.ts";
import type { ReplicaLimits } from "../../gpu-agent/src/replicas/limits.ts";
import { ReplicaPool } from "../../gpu-agent/src/replicas/pool.ts";
import { Replica, type ReplicaState } from "../../gpu-agent/src/replicas/replica.ts";
import type { EngineRequest } from "../../gpu-agent/src/replicas/wire.ts";

/** Resolves when every promise job that could run has run: nothing here waits for I/O, so then all stands still. */
export const promiseJobs = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

export class ManualClock implements Clock {
  #nowMs = 0;
  readonly #timers = new Set<{ readonly dueMs: number; readonly fire: () => void }>();

  now(): number {
    return this.#nowMs;
  }

  after(ms: number, fire: () => void): Timer {
    const timer = { dueMs: this.#nowMs + ms, fire };
    this.#timers.add(timer);
    return { cancel: () => void this.#timers.delete(timer) };
  }

  /** Timers that have neither fired nor been cancelled. */
  get pending(): number {
    return this.#timers.size;
  }

  /** Lets what is under way settle, then moves on, firing timers in the order of their time. */
  async advance(ms: number): Promise<void> {
    await promiseJobs();
    const targetMs = this.#nowMs + ms;
    for (;;) {
      const [next] = [...this.#timers].filter(({ dueMs }) => dueMs <= targetMs).sort((a, b) => a.dueMs - b.dueMs);
      if (next === undefined) break;
      this.#timers.delete(next);
      this.#nowMs = next.dueMs;
      next.fire();
      await promiseJobs();
    }
    this.#nowMs = targetMs;
    await promiseJobs();
  }
}

/** One process of an engine. It dies of SIGKILL by itself unless `immortal`. */
export class FakeProcess implements EngineProcess {
  readonly pid: number;
  /** Command lines, without their LF. */
  readonly written: string[] = [];
  readonly signals: string[] = [];
  paused = false;
  immortal = false;
  /** Called with each command line, for engines that answer by themselves. */
  onCommand: ((line: string) => void) | undefined;
  readonly #events: EngineEvents;
  #exited = false;

  constructor(pid: number, events: EngineEvents) {
    this.pid = pid;
    this.#events = events;
  }

  write(line: string): void {
    this.written.push(line.replace(/\n$/, ""));
    this.onCommand?.(line.replace(/\n$/, ""));
  }

  kill(signal: "SIGTERM" | "SIGKILL"): void {
    this.signals.push(signal);
    if (!this.immortal) queueMicrotask(() => this.exit({ code: null, signal }));
  }

  pause(): void {
    this.paused = true;
  }

  resume(): void {
    this.paused = false;
  }

  /** Lines come out of the process, in one chunk; promise jobs have run when it resolves. */
  say(...lines: string[]): Promise<void> {
    this.#events.output(Buffer.from(lines.map((line) => `${line}\n`).join("")));
    return promiseJobs();
  }

  /** Its output closes. */
  end(): Promise<void> {
    this.#events.end();
    return promiseJobs();
  }

  /** It exits, once; later calls do nothing. */
  exit(exit: EngineExit): Promise<void> {
    if (!this.#exited) {
      this.#exited = true;
      this.#events.exit(exit);
    }
    return promiseJobs();
  }
}

/** What `spawn` stands for: a row of processes, one an incarnation. */
export class FakeEngine {
  readonly processes: FakeProcess[] = [];
  readonly spawn: SpawnEngine = (events) => {
    const process = new FakeProcess(1000 + this.processes.length, events);
    this.processes.push(process);
    return process;
  };

  /** The newest process. */
  get process(): FakeProcess {
    const process = this.processes.at(-1);
    if (process === undefined) throw new Error("no process was spawned");
    return process;
  }
}

/** Limits that all differ, so that a test sees which one was waited for. */
export const testLimits: ReplicaLimits = {
  readyTimeoutMs: 5_000,
  readyTries: 3,
  readyRetryMs: 300,
  silenceMs: 700,
  drainMs: 110,
  poisonGraceMs: 230,
  killTimeoutMs: 170,
  healCooldownMs: 1_900,
  quitTimeoutMs: 130,
  maxWaiting: 4,
};

export interface FakeFleet {
  readonly clock: ManualClock;
  readonly pool: ReplicaPool;
  readonly engines: readonly FakeEngine[];
  /** Every state that a replica took, in order, as `<index> <state>`. */
  readonly states: string[];
  /** The n-th replica, its fake engine's newest process. */
  replica(index: number): Replica;
  process(index: number): FakeProcess;
}

/** Replicas that have been spawned and have said nothing yet. */
export const spawnFleet = (count: number, limits: ReplicaLimits = testLimits): FakeFleet => {
  const clock = new ManualClock();
  const engines = Array.from({ length: count }, () => new FakeEngine());
  const states: string[] = [];
  const replicas = engines.map(
    ({ spawn }, index) =>
      new Replica({
        index,
        spawn,
        clock,
        limits,
        onCacheLost: (lost) => pool.index.forget(lost),
        onState: (of: number, state: ReplicaState) => states.push(`${of} ${state}`),
      }),
  );
  const pool = new ReplicaPool(replicas);
  const at = <T>(list: readonly T[], index: number): T => {
    const found = list[index];
    if (found === undefined) throw new Error(`there is no replica ${index}`);
    return found;
  };
  return {
    clock,
    pool,
    engines,
    states,
    replica: (index) => at(replicas, index),
    process: (index) => at(engines, index).process,
  };
};

/** Replicas that are READY with these capabilities (`stop turns` unless told otherwise). */
export const startFleet = async (
  count: number,
  capabilities = "stop turns",
  limits: ReplicaLimits = testLimits,
): Promise<FakeFleet> => {
  const fleet = spawnFleet(count, limits);
  for (const { process } of fleet.engines) await process.say(`READY 4096 ${capabilities}`);
  return fleet;
};

/** A request with a prompt of this many tokens; distinct by `first`. */
export const requestOf = (promptTokens: number, maxTokens = 16, first = 1): EngineRequest => ({
  prompt: Array.from({ length: promptTokens }, (_, at) => first + at),
  maxTokens,
  sampling: {},
  salt: createHash("sha256").update("tenant").digest("hex").slice(0, 16),
});

/** A whole DONE line without a tag. */
export const doneLine = (generated: number, promptTokens: number, finish = "stop", reused = 0): string =>
  `DONE ${generated} ${promptTokens} 10.5 20.5 ${finish} 0 0 ${reused} 0 0 0 0 0.0 ${promptTokens - reused} 0`;
