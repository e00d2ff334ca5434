/**
 * All schedules of a small scope, depth first. A generator cannot be copied, so every schedule is run from its start; the steps that it has
 * in common with the one before are run without the checks that cost most.
 */
import { enabledEvents, type ScheduledEvent } from "./events.ts";
import { choose, countStrikes, type Failure, failureOf, finish } from "./run-schedule.ts";
import type { Scope } from "./scope.ts";
import { World } from "./world.ts";

export interface Exploration {
  /** Schedules that were run to their end. */
  readonly schedules: number;
  /** Schedules that came to a state that was known already. */
  readonly merged: number;
  readonly states: ReadonlySet<string>;
  readonly steps: number;
  readonly longest: number;
  /** How often each fault struck. */
  readonly struck: ReadonlyMap<string, number>;
  /** False: stopped at the bound. */
  readonly complete: boolean;
  readonly failure: Failure | undefined;
}

/**
 * The replica that is looked at. Once every turn has come, nothing of one replica reads anything of another: their events commute, and
 * each replica is followed alone while the others come to their end by themselves.
 */
const focusAfter = (focus: number | undefined, allCame: boolean, event: ScheduledEvent): number | undefined =>
  focus ?? (allCame ? event.replica : undefined);

const allCame = (world: World): boolean => world.callers.every(({ state }) => state !== "outside");

/**
 * Depth first over every schedule of a scope. With `merge`, a schedule that comes to a state that was seen is not followed further, and
 * replicas that cannot touch each other any more are followed one by one; without, every single order is run.
 * `maxSchedules` bounds the schedules that are run to their end.
 */
export const enumerate = async (
  scope: Scope,
  { merge, maxSchedules }: { readonly merge: boolean; readonly maxSchedules: number },
): Promise<Exploration> => {
  const states = new Set<string>();
  const finished = new Set<string>();
  const struck = new Map<string, number>();
  /** One entry a step of the schedule at hand: the choices there were, and which was taken. */
  const stack: { at: number; readonly of: readonly number[] }[] = [];
  let [schedules, merged, steps, longest] = [0, 0, 0, 0];
  let failure: Failure | undefined;
  let complete = false;

  while (failure === undefined && !complete && schedules < maxSchedules) {
    using world = await World.create(scope);
    const choices = stack.map(({ at, of }) => of[at] as number);
    let focus: number | undefined;
    let fresh = true;
    const take = async (choice: number, known: boolean) => {
      const came = allCame(world);
      const event = await choose(world, choice, known);
      if (merge && scope.replicas > 1) focus = focusAfter(focus, came, event);
      steps++;
    };
    for (const [at, choice] of choices.entries()) await take(choice, at < choices.length - 1);
    if (choices.length > 0) fresh = note(world.fingerprint(focus));
    while (fresh && world.violation === undefined) {
      const of = enabledEvents(world).flatMap(({ replica }, index) =>
        focus === undefined || replica === focus ? [index] : [],
      );
      const [first] = of;
      if (first === undefined) break;
      stack.push({ at: 0, of });
      choices.push(first);
      await take(first, false);
      fresh = note(world.fingerprint(focus));
    }
    longest = Math.max(longest, choices.length);
    if (fresh) {
      // Without merging, many orders come to the same last state, which has one end.
      const last = world.fingerprint(focus);
      if (!finished.has(last)) await finish(world);
      finished.add(last);
      schedules++;
      countStrikes(world, struck);
    } else merged++;
    failure = failureOf(world, choices);
    let last = stack.at(-1);
    while (last !== undefined && last.at + 1 === last.of.length) {
      stack.pop();
      last = stack.at(-1);
    }
    if (last === undefined) complete = true;
    else last.at++;
  }
  return { schedules, merged, states, steps, longest, struck, complete, failure };

  function note(state: string): boolean {
    const known = states.has(state);
    states.add(state);
    return !(known && merge);
  }
};
