/** The shortest schedule that breaks a rule, breadth first: what a person reads to understand a fault. */
import { enabledEvents } from "./events.ts";
import { choose, type Failure, failureOf } from "./run-schedule.ts";
import type { Scope } from "./scope.ts";
import { World } from "./world.ts";

/**
 * The shortest schedule of a scope whose first broken rule matches, by breadth first search; undefined when none of up to `maxSteps`
 * steps does.
 */
export const shortestFailure = async (
  scope: Scope,
  maxSteps: number,
  rule: RegExp = /./,
): Promise<Failure | undefined> => {
  const states = new Set<string>();
  let frontier: number[][] = [[]];
  for (let steps = 1; steps <= maxSteps && frontier.length > 0; steps++) {
    const next: number[][] = [];
    for (const choices of frontier) {
      for (let choice = 0, of = 1; choice < of; choice++) {
        using world = await World.create(scope);
        for (const known of choices) await choose(world, known, true);
        const events = enabledEvents(world);
        of = events.length;
        const event = events[choice];
        if (event === undefined) break;
        await world.step(event);
        const longer = [...choices, choice];
        if (world.violation !== undefined) {
          if (rule.test(world.violation)) return failureOf(world, longer);
          continue;
        }
        const state = world.fingerprint();
        if (states.has(state)) continue;
        states.add(state);
        next.push(longer);
      }
    }
    frontier = next;
  }
  return undefined;
};
