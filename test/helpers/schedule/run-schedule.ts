/**
 * One schedule from its first event to its last, and again from its path. Which events are chosen is said in enumerate.ts,
 * shortest-failure.ts and sample.ts.
 *
 * To run one again: `LOCKGATE_SCHEDULE_PATH='<path>' npx ava test/contract/schedule-replay.test.ts` prints its trace.
 */
import { enabledEvents, nextByItself, type ScheduledEvent } from "./events.ts";
import { checkRest } from "./invariants.ts";
import { formatPath, parsePath } from "./scope.ts";
import { World } from "./world.ts";

/** Steps in which all that is under way must come to its end. */
const MAX_WIND_DOWN_STEPS = 400;

/** A schedule that broke a rule. */
export interface Failure {
  readonly path: string;
  readonly rule: string;
  readonly steps: number;
}

const windDown = async (world: World): Promise<void> => {
  for (let steps = 0; world.violation === undefined; steps++) {
    const event = nextByItself(world);
    if (event === undefined) return checkRest(world);
    if (steps === MAX_WIND_DOWN_STEPS) return world.broke(`still not at rest after ${steps} steps`);
    await world.step(event);
  }
};

/** Lets all come to its end, then serves a successor on every replica that lives. */
export const finish = async (world: World): Promise<void> => {
  await windDown(world);
  if (world.violation !== undefined) return;
  for (const process of world.processes) if (!process.unkillable) process.thaw();
  const probes = world.pool.replicas.filter(({ engine }) => engine?.usable).map(() => world.addCaller());
  for (const probe of probes) {
    await world.step({ name: `turn ${probe.number} comes, a successor`, run: () => world.admit(probe) });
  }
  await windDown(world);
  for (const { number, failure, process } of probes) {
    // A wedged process that was idle is found out by the first turn that meets it.
    if (failure !== undefined && !process?.unkillable)
      world.broke(`the successor, turn ${number}, was not served: ${String(failure.error)}`);
  }
};

/** Adds the faults that struck in a world to counts. */
export const countStrikes = (world: World, struck: Map<string, number>): void => {
  for (const name of world.struck.values()) struck.set(name, (struck.get(name) ?? 0) + 1);
};

/** What a world came to, as a failure to show; undefined when no rule was broken. */
export const failureOf = (world: World, choices: readonly number[]): Failure | undefined =>
  world.violation === undefined
    ? undefined
    : { path: formatPath(world.scope, choices), rule: world.violation, steps: choices.length };

/** Runs the event with this index; throws when the path does not fit the code any more. */
export const choose = async (world: World, choice: number, known = false): Promise<ScheduledEvent> => {
  const event = enabledEvents(world)[choice];
  if (event === undefined) throw new Error(`no event ${choice} can happen: the path is of other code`);
  await world.step(event, known);
  return event;
};

/** Runs one schedule again and tells it step by step, numbered; all that follows by itself after the chosen steps included. */
export const replay = async (path: string): Promise<{ readonly rule: string | undefined; readonly trace: string }> => {
  const { scope, choices } = parsePath(path);
  const trace: string[] = [];
  using world = await World.create(scope, trace);
  for (const choice of choices) await choose(world, choice);
  if (world.violation === undefined) {
    trace.push("(the rest comes to its end)");
    await finish(world);
  }
  let step = 0;
  const numbered = trace.map((line) => (/^[ (]/.test(line) ? line : `${String(++step).padStart(4)}. ${line}`));
  return { rule: world.violation, trace: numbered.join("\n") };
};

/** A failure as a person reads it. */
export const describe = async (failure: Failure): Promise<string> => {
  const { trace } = await replay(failure.path);
  return `${failure.rule}\n  path ${failure.path}\n${trace}`;
};
