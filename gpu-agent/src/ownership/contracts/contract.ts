/** What a contract is: a claim about ownership, and a play that shows it with any subject, or fails. */
import assert from "node:assert/strict";
import type { OpenTurn } from "../../replicas/owned-turn.ts";
import { CONTRACT_LIMIT_MS, World, type WorldOptions } from "../world.ts";

export interface Contract {
  readonly number: number;
  readonly title: string;
  /** Rejects, by an assertion or a typed error, when the subject breaks the claim. */
  readonly play: (open: OpenTurn) => Promise<void>;
}

/** Opens a world, runs the play in it within the limit, and closes the world whatever happened. */
export const inWorld =
  (options: WorldOptions, play: (world: World) => Promise<void>) =>
  async (open: OpenTurn): Promise<void> => {
    const world = await World.open(open, options);
    const limit = Promise.withResolvers<never>();
    const timer = setTimeout(
      () =>
        limit.reject(new assert.AssertionError({ message: `it hangs; the wire so far: ${world.shape().join(", ")}` })),
      CONTRACT_LIMIT_MS,
    );
    try {
      await Promise.race([play(world), limit.promise]);
    } finally {
      clearTimeout(timer);
      await world.close();
    }
  };

/** The books at rest: nothing in flight, nothing waiting, every lease of a living engine free. */
export const assertAtRest = (world: World): void => {
  assert.equal(world.pool.inflight, 0, "turns in flight at the end");
  assert.equal(world.pool.waiting, 0, "turns waiting at the end");
  for (const { engine, index } of world.pool.replicas) {
    if (engine?.usable) assert.equal(engine.leases.held, 0, `leases of replica ${index} held at the end`);
  }
};
