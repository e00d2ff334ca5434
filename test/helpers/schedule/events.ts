/**
 * What can happen next in a world, in an order that depends on the state alone, so that an index names an event. Each event acts on the
 * agent from outside: a line, a death, a timer, a pull, an abort, and so on.
 */
import type { Caller } from "./caller.ts";
import { strikeOf } from "./faults.ts";
import type { ScheduledProcess } from "./scheduled-process.ts";
import { hasSharedStatistics, MAX_ENABLED } from "./scope.ts";
import type { World } from "./world.ts";

/** What sort of event it is; `repair` undoes a fault, `death` follows a kill. */
export type EventKind =
  | "admit"
  | "pull"
  | "ending"
  | "read"
  | "line"
  | "repair"
  | "death"
  | "fault"
  | "handOver"
  | "timer";

export interface ScheduledEvent {
  readonly kind: EventKind;
  /** The replica that it concerns; undefined for what may concern any. */
  readonly replica: number | undefined;
  /** What happens, in words. */
  readonly name: string;
  readonly run: () => void;
}

/** How often a sampled schedule chooses an event of a kind, relative to the others. */
export const eventWeights: Readonly<Record<EventKind, number>> = {
  admit: 6,
  pull: 8,
  ending: 0.8,
  read: 4,
  line: 8,
  repair: 2,
  death: 4,
  fault: 2,
  handOver: 6,
  timer: 0.6,
};

type Add = (kind: EventKind, name: string, run: () => void, replica?: number) => void;

/** The events that a schedule may choose from. */
export const enabledEvents = (world: World): ScheduledEvent[] => {
  const { scope } = world;
  const events: ScheduledEvent[] = [];
  const add: Add = (kind, name, run, replica) => events.push({ kind, name, run, replica });
  // Callers differ in their numbers alone, so one order of coming stands for all.
  const next = world.callers.find(({ state }) => state === "outside");
  if (next !== undefined) add("admit", `turn ${next.number} comes`, () => world.admit(next));
  for (const caller of world.callers) {
    const here = caller.admission?.replica.index;
    callerEvents(world, caller, (kind, name, run) => add(kind, name, run, here));
  }
  for (const process of world.processes) {
    const addHere: Add = (kind, name, run) => add(kind, name, run, process.replica);
    processEvents(world, process, addHere);
    if (scope.endings && scope.faults.length === 0) engineEndings(world, process, addHere);
    faultEvents(world, process, addHere);
  }
  handOverEvents(world, add);
  if (world.clock.armed > 0) add("timer", "time passes", () => world.fireTimer());
  const chosen = scope.timers ? events : events.filter(({ kind }) => kind !== "timer" && kind !== "death");
  if (chosen.length > MAX_ENABLED) throw new Error(`${chosen.length} events can happen, more than a path can tell`);
  return chosen;
};

/** What happens when nobody chooses: all that is under way comes to its end. Time passes only when nothing else can. */
export const nextByItself = (world: World): ScheduledEvent | undefined => {
  const events: ScheduledEvent[] = [];
  const add: Add = (kind, name, run) => {
    if (kind !== "repair") events.push({ kind, name, run, replica: undefined });
  };
  handOverEvents(world, add);
  for (const process of world.processes) processEvents(world, process, add);
  for (const caller of world.callers) {
    if (caller.state !== "rest") continue;
    if (caller.aborted) add("ending", `turn ${caller.number} is closed`, () => caller.close());
    else add("pull", `turn ${caller.number} pulls`, () => caller.pull());
  }
  if (world.clock.armed > 0) add("timer", "time passes", () => world.fireTimer());
  return events[0];
};

const callerEvents = (world: World, caller: Caller, add: Add): void => {
  const { number, state, aborted, endings } = caller;
  const ending = (words: string, run: () => void) => add("ending", `turn ${number} ${words}`, run);
  const { endings: all, timers } = world.scope;
  if (state === "rest") {
    add("pull", `turn ${number} pulls`, () => caller.pull());
    ending("is closed", () => caller.close());
    if (all && endings.length === 0) ending("fails in its caller", () => caller.throw());
  }
  if (state === "pulling" && all && endings.length === 0) ending("is closed while a pull is out", () => caller.close());
  if (all && !aborted && (state === "rest" || state === "pulling" || (timers && state === "closing")))
    ending("is aborted", () => caller.abort());
  if (state === "ended" && !caller.read && hasSharedStatistics(world.scope) && caller.admission !== undefined) {
    add("read", `turn ${number} reads its statistics`, () => caller.readStatistics());
  }
};

/** What an engine does by itself. */
const processEvents = (world: World, process: ScheduledProcess, add: Add): void => {
  const at = `replica ${process.replica}`;
  const { alive, model } = process;
  if (process.killed && alive && !process.unkillable)
    add("death", `the killed process of ${at} is gone`, () => {
      process.exit("SIGKILL");
      process.end();
    });
  if (process.frozen && alive && !process.unkillable) add("repair", `${at} is continued`, () => process.thaw());
  if (process.stdinFull && alive) add("repair", `${at} reads its stdin again`, () => process.thaw());
  if (!process.ready && alive && !process.killed) add("line", `${at} is ready`, () => process.becomeReady());
  if (!alive && !process.ended && process.rest === undefined)
    add("line", `the output of ${at} ends`, () => process.end());
  if (!process.speaks) return;
  if (process.rest !== undefined) {
    add("line", `the rest of a line of ${at}`, () => process.putRest());
    return;
  }
  for (let slot = 0; slot < model.lanes; slot++) {
    const saying = model.next(slot, process.stdinFull);
    if (saying !== undefined) add("line", `${at} says ${saying}`, () => process.put(model.say(slot), slot));
    if (!process.stdinFull && model.stoppable(slot))
      add("line", `${at} takes STOP`, () => {
        model.takeStop(slot);
        process.put(model.say(slot), slot);
      });
  }
  // An untagged line after the next GEN cannot be told from the successor's own (engine-protocol): it comes before that, or never.
  const stray = process.strays[0];
  if (stray !== undefined && (world.scope.variant !== "untagged" || !process.out(stray.slot)))
    add("line", `${at} says a line for nobody`, () => process.putStray());
};

/** ERR in place of the next line; the output's end while a turn is there. */
const engineEndings = (world: World, process: ScheduledProcess, add: Add): void => {
  const at = `replica ${process.replica}`;
  if (!process.speaks || !process.alive) return;
  for (let slot = 0; slot < process.model.lanes; slot++) {
    if (process.model.next(slot, false) !== undefined)
      add("ending", `${at} says ERR`, () => process.put(process.model.refuse(slot), slot));
  }
  const used = world.callers.some(({ open, admission }) => open && admission?.replica.index === process.replica);
  if (used) add("ending", `the output of ${at} ends`, () => process.end());
};

const faultEvents = (world: World, process: ScheduledProcess, add: Add): void => {
  for (const kind of world.scope.faults) {
    if (world.struck.has(kind)) continue;
    const held = (world.engineOf(process)?.leases.held ?? 0) > 0;
    const strike = strikeOf(kind, process, world.scope.cutAt, held);
    if (strike === undefined) continue;
    add("fault", `fault on replica ${process.replica}: ${strike.name}`, () => {
      world.struck.set(kind, strike.name);
      strike.run();
    });
  }
};

const handOverEvents = (world: World, add: Add): void => {
  const [held] = world.handOvers;
  if (held === undefined) return;
  add("handOver", "the one that released first goes on", () => {
    world.handOvers.shift();
    held.resolve();
  });
};
