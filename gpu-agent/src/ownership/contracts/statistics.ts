/** Contracts 8, 19 and 20: whose statistics a caller gets. */
import assert from "node:assert/strict";
import { EngineRefused } from "../../replicas/errors.ts";
import { areOwn, ownTokens, type World } from "../world.ts";
import { assertAtRest, type Contract, inWorld } from "./contract.ts";

/** A prompt so long that its replica is worth waiting for: re-reading it elsewhere costs more than a running turn. */
const LONG_PROMPT_TOKENS = 4096;
const longPrompt = (owner: number): number[] =>
  Array.from({ length: LONG_PROMPT_TOKENS }, (_, at) => (at === 0 ? owner : at));

/**
 * Brings about: replica 1 has an old DONE, replica 0 the newest, and the next turn with the long prompt goes to replica 1.
 * The first turn goes to replica 0 and the second, with the long prompt, to replica 1 (ties go to the one whose last turn was longest ago).
 */
const twoHistories = async (world: World): Promise<void> => {
  const first = world.call(1);
  assert.equal(first.admission.replica.index, 0);
  await world.read(first);
  const long = world.call(2, { prompt: longPrompt(2) });
  assert.equal(long.admission.replica.index, 1);
  await world.read(long);
};

export const statisticsContracts: readonly Contract[] = [
  {
    number: 8,
    title: "caller statistics: A's prompt count and ms are A's, read after B ran",
    play: inWorld({ scripts: [{}] }, async (world) => {
      const a = world.call(1);
      const b = world.call(2);
      world.armNextRelease(b.ended);
      const reading = world.read(b);
      await world.read(a);
      await reading;
      assert.deepEqual([a.ids, b.ids], [ownTokens(1), ownTokens(2)]);
      assert.ok(areOwn(a, a.turn.statistics()), `A's statistics are ${JSON.stringify(a.turn.statistics())}`);
      assert.ok(areOwn(b, b.turn.statistics()), `B's statistics are ${JSON.stringify(b.turn.statistics())}`);
      assertAtRest(world);
    }),
  },
  {
    number: 19,
    title: "identity before DONE, cancelled in the other replica's queue: no foreign DONE becomes this turn's",
    play: inWorld({ scripts: [{}, { turns: [{}, { hold: "stop-or-next" }] }] }, async (world) => {
      await twoHistories(world);
      const holder = world.call(3, { prompt: longPrompt(2) });
      assert.equal(holder.admission.replica.index, 1);
      await world.read(holder, (ids) => ids.length === 1);
      const newest = world.call(4);
      assert.equal(newest.admission.replica.index, 0);
      await world.read(newest);
      const queued = world.call(5, { prompt: longPrompt(2) });
      assert.equal(queued.admission.replica.index, 1);
      const pull = world.read(queued);
      queued.abort.abort(new Error("cancelled"));
      await assert.rejects(pull, /cancelled/);
      assert.equal(queued.turn.statistics(), null);
      await world.hangUp(holder);
      assertAtRest(world);
    }),
  },
  {
    number: 20,
    title: "identity before DONE, ERR on the other replica: no foreign DONE becomes this turn's",
    play: inWorld({ scripts: [{}, { turns: [{}, { refuse: "no room" }] }] }, async (world) => {
      await twoHistories(world);
      const newest = world.call(3);
      assert.equal(newest.admission.replica.index, 0);
      await world.read(newest);
      const refused = world.call(4, { prompt: longPrompt(2) });
      assert.equal(refused.admission.replica.index, 1);
      await assert.rejects(world.read(refused), EngineRefused);
      assert.equal(refused.turn.statistics(), null);
      assertAtRest(world);
    }),
  },
];
