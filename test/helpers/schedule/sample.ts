/**
 * Schedules of a scope that is too large to enumerate, chosen at random from a seed. The seed is printed; with LOCKGATE_SCHEDULE_SEED set to
 * it, the same schedules are run again.
 */
import { enabledEvents, eventWeights, type ScheduledEvent } from "./events.ts";
import { pickWeighted, randomStream } from "./random.ts";
import { countStrikes, type Failure, failureOf, finish, replay } from "./run-schedule.ts";
import type { Scope } from "./scope.ts";
import { World } from "./world.ts";

/** Steps that a sampled schedule chooses. */
const MAX_SAMPLED_STEPS = 80;

export interface Sampling {
  readonly schedules: number;
  readonly steps: number;
  readonly longest: number;
  /** How often each fault struck. */
  readonly struck: ReadonlyMap<string, number>;
  readonly failure: Failure | undefined;
}

/** Sampled schedules that take turns: the turn of the event loop after each step is paid once for all of them. */
const SIDE_BY_SIDE = 16;

/** Runs `count` schedules; the scope of each is `scopeOf(its index, its own random numbers)`. Stops soon after one fails. */
export const sample = async (
  count: number,
  seed: number,
  scopeOf: (index: number, random: () => number) => Scope,
): Promise<Sampling> => {
  const struck = new Map<string, number>();
  const failures: Failure[] = [];
  let [started, schedules, steps, longest] = [0, 0, 0, 0];
  const runSome = async () => {
    while (started < count && failures.length === 0) {
      const random = randomStream(seed, started);
      using world = await World.create(scopeOf(started++, random));
      const choices = await wander(world, random);
      await finish(world);
      countStrikes(world, struck);
      schedules++;
      steps += choices.length;
      longest = Math.max(longest, choices.length);
      const failure = failureOf(world, choices);
      if (failure !== undefined) failures.push(failure);
    }
  };
  await Promise.all(Array.from({ length: SIDE_BY_SIDE }, runSome));
  let failure = failures[0];
  for (const suspect of failures) {
    if ((await replay(suspect.path)).rule === undefined) continue;
    failure = suspect;
    break;
  }
  return { schedules, steps, longest, struck, failure };
};

/** Chooses at random, up to the bound of steps; returns what was chosen. */
const wander = async (world: World, random: () => number): Promise<number[]> => {
  const choices: number[] = [];
  while (choices.length < MAX_SAMPLED_STEPS && world.violation === undefined) {
    const events = enabledEvents(world);
    if (events.length === 0) break;
    const choice = pickWeighted(
      events.map(({ kind }) => eventWeights[kind]),
      random,
    );
    choices.push(choice);
    await world.step(events[choice] as ScheduledEvent);
  }
  return choices;
};
