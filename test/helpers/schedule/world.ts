/**
 * One schedule's world: the real pool, replicas, engines, reader and lanes, around them processes, time and callers that move only when an
 * event is run. After each event all microtasks run, then every invariant is looked at.
 *
 * Which events there are is said in events.ts, which one is run in explore.ts.
 */

import { subjects } from "../../../gpu-agent/src/ownership/subjects/index.ts";
import type { Engine } from "../../../gpu-agent/src/replicas/engine.ts";
import type { OpenTurn } from "../../../gpu-agent/src/replicas/owned-turn.ts";
import { ReplicaPool } from "../../../gpu-agent/src/replicas/pool.ts";
import { Replica } from "../../../gpu-agent/src/replicas/replica.ts";
import { Caller } from "./caller.ts";
import { tokensOf } from "./engine-model.ts";
import type { FaultKind } from "./faults.ts";
import { checkAbandoned, checkGenerate, checkKill, checkStep } from "./invariants.ts";
import { ScheduledProcess } from "./scheduled-process.ts";
import { type Scope, shapes } from "./scope.ts";
import { VirtualClock } from "./virtual-clock.ts";
import { limits } from "./world-limits.ts";

/**
 * Lets everything run that the agent can do without the outside: Node runs all microtasks, those that microtasks make included, before the
 * next callback of the event loop, and has reported by then what rejected with nobody to handle it.
 */
const quiescence = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** The same without the report and the turn of the event loop, which costs more than a step: Node runs all microtasks before a tick, too. */
const quiescenceUnreported = (): Promise<void> => new Promise((resolve) => process.nextTick(resolve));

/** Worlds of schedules that run now. A rejection does not say whose it is: it counts against all, and a replay tells. */
const live = new Set<World>();
process.on("unhandledRejection", (reason) => {
  if (live.size === 0) throw reason;
  const text = reason instanceof Error ? reason.message : String(reason);
  for (const world of live) world.broke(`nobody handled the rejection: ${text}`);
});

export class World {
  readonly scope: Scope;
  readonly clock = new VirtualClock();
  readonly pool: ReplicaPool;
  /** The current process of each replica. */
  readonly processes: ScheduledProcess[] = [];
  readonly callers: Caller[];
  /** Predecessors that wait until they may go on after their release; only with an armed hand-over. */
  readonly handOvers: PromiseWithResolvers<void>[] = [];
  /** The faults that struck, and the name that each is counted under. */
  readonly struck = new Map<FaultKind, string>();
  timersFired = 0;
  /** What was broken first; undefined while all is well. */
  violation: string | undefined;
  readonly #trace: string[] | undefined;
  readonly #open: OpenTurn;
  #pids = 0;

  private constructor(scope: Scope, trace: string[] | undefined) {
    this.scope = scope;
    this.#trace = trace;
    this.#open = subjects[scope.subject]();
    const replicas = Array.from({ length: scope.replicas }, (_, index) => this.#replica(index));
    this.pool = new ReplicaPool(replicas);
    this.callers = Array.from({ length: scope.callers }, (_, index) => this.#caller(index + 1));
  }

  /** A world whose replicas are ready. What happens is told in `trace`, if there is one. */
  static async create(scope: Scope, trace?: string[]): Promise<World> {
    const world = new World(scope, trace);
    live.add(world);
    for (const made of world.processes) made.becomeReady();
    await quiescence();
    return world;
  }

  broke(rule: string): void {
    this.violation ??= rule;
    this.say(`BROKEN: ${rule}`);
  }

  say(words: string): void {
    this.#trace?.push(`      ${words}`);
  }

  /** The schedule is over; what comes later is not its own. */
  [Symbol.dispose](): void {
    live.delete(this);
  }

  /** Runs one event and all that follows from it. `known`: the same steps were run before, with all reports. */
  async step(event: { readonly name: string; readonly run: () => void }, known = false): Promise<void> {
    this.#trace?.push(event.name);
    event.run();
    await (known ? quiescenceUnreported() : quiescence());
    checkStep(this);
  }

  /** The engine that a process belongs to, if it is its replica's current one. */
  engineOf(of: ScheduledProcess): Engine | undefined {
    const engine = this.pool.replicas[of.replica]?.engine;
    return engine?.process === of ? engine : undefined;
  }

  /** A further caller, who comes when `admit` is called. */
  addCaller(): Caller {
    const caller = this.#caller(this.callers.length + 1);
    this.callers.push(caller);
    return caller;
  }

  admit(caller: Caller): void {
    caller.admit(this.pool, this.#open);
  }

  fireTimer(): void {
    this.timersFired++;
    this.say(`${this.clock.fireNext()} ms passed`);
  }

  /**
   * All that decides what can happen from here on, as text: two schedules that have it in common go on alike. With `only`, what decides it
   * for one replica and its callers.
   */
  fingerprint(only?: number): string {
    const here = (index: number | undefined) => only === undefined || index === only;
    const replicas = this.pool.replicas
      .filter(({ index }) => here(index))
      .map(({ index, engine, inflight }) => {
        const lanes = engine?.lanes.map(({ queued, running }) => `${queued}${running ? "r" : ""}`).join();
        const leases = `${engine?.leases.free}.${engine?.leases.waiting}.${engine?.usable}`;
        return `${inflight}.${lanes}.${leases}.${this.processes[index]?.fingerprint()}`;
      });
    const callers = this.callers
      .filter(({ admission }) => here(admission?.replica.index))
      .map((caller) => caller.fingerprint());
    const struck = [...this.struck.keys()].join();
    const timers = only === undefined ? this.clock.remainingMs().join() : "";
    const byUse = this.pool.replicas.toSorted((a, b) => a.lastTurn - b.lastTurn);
    const order = only === undefined ? byUse.map(({ index }) => index).join() : "";
    return [only, order, callers.join(";"), replicas.join(";"), struck, this.handOvers.length, timers].join("#");
  }

  #replica(index: number): Replica {
    const handOver = () => {
      const held = Promise.withResolvers<void>();
      this.handOvers.push(held);
      return held.promise;
    };
    return new Replica({
      index,
      clock: this.clock,
      limits,
      handOver: this.scope.armed ? handOver : undefined,
      onState: (_, state) => {
        const process = this.processes[index];
        if (state === "abandoned" && process !== undefined) checkAbandoned(this, process);
      },
      spawn: (events) => {
        const made = new ScheduledProcess({
          replica: index,
          pid: ++this.#pids,
          variant: this.scope.variant,
          shape: shapes[this.scope.shape],
          events,
          watch: {
            nowMs: () => this.clock.now(),
            generated: (of, slot, caller) => checkGenerate(this, of, slot, caller),
            killed: (of) => checkKill(this, of),
            broke: (rule) => {
              if (!this.scope.callersOnly) this.broke(rule);
            },
            say: (words) => this.say(words),
          },
        });
        if (this.processes[index]?.alive) this.broke(`replica ${index} is started while its old process lives`);
        this.processes[index] = made;
        return made;
      },
    });
  }

  #caller(number: number): Caller {
    return new Caller(
      number,
      tokensOf(shapes[this.scope.shape]) + 1,
      (rule) => this.broke(rule),
      (words) => this.say(words),
    );
  }
}
