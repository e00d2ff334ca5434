/** Contracts 1-5, 17 and 21: when the pipe passes on, and what the successor reads. */
import assert from "node:assert/strict";
import { END_TOKEN, type TurnScript } from "../scripted-engine.ts";
import { areOwn, ownTokens, type World } from "../world.ts";
import { assertAtRest, type Contract, inWorld } from "./contract.ts";

const heldDone: TurnScript = { hold: "stop-or-next" };

/** A reads to its end token and hangs up while its DONE is out; B follows at the moment of A's release. */
const endThenSuccessor = async (world: World, alsoStatistics: boolean): Promise<void> => {
  const a = world.call(1);
  const b = world.call(2);
  world.armNextRelease(b.ended);
  const reading = world.read(b);
  assert.equal(await world.read(a, (ids) => ids.at(-1) === END_TOKEN), true);
  await world.hangUp(a);
  await reading;
  assert.deepEqual(a.ids, ownTokens(1));
  assert.deepEqual(b.ids, ownTokens(2), "the successor's tokens");
  if (alsoStatistics) {
    assert.ok(areOwn(a, a.turn.statistics()), `A's statistics are ${JSON.stringify(a.turn.statistics())}`);
    assert.ok(areOwn(b, b.turn.statistics()), `B's statistics are ${JSON.stringify(b.turn.statistics())}`);
    assert.equal(b.turn.statistics()?.finish, "stop");
  }
  assertAtRest(world);
};

export const handOverContracts: readonly Contract[] = [
  {
    number: 1,
    title: "end of sequence, then a successor: B gets its own tokens",
    play: inWorld({ scripts: [{ turns: [heldDone] }] }, (world) => endThenSuccessor(world, false)),
  },
  {
    number: 2,
    title: "early close at token 1: B never sees A's tokens",
    play: inWorld({ scripts: [{ turns: [{ tokens: 12, sendFirst: 1, hold: "stop-or-next" }] }] }, async (world) => {
      const a = world.call(1);
      const b = world.call(2);
      world.armNextRelease(b.ended);
      const reading = world.read(b);
      assert.equal(await world.read(a, (ids) => ids.length === 1), true);
      await world.hangUp(a);
      await reading;
      assert.deepEqual(b.ids, ownTokens(2));
      assertAtRest(world);
    }),
  },
  {
    number: 3,
    title: "a close as a stop string makes it: the wire reads GEN, STOP, GEN with A's DONE between",
    play: inWorld({ scripts: [{ turns: [{ tokens: 12, sendFirst: 5, hold: "stop-or-next" }] }] }, async (world) => {
      const a = world.call(1);
      const b = world.call(2);
      world.armNextRelease(b.ended);
      const reading = world.read(b);
      assert.equal(await world.read(a, (ids) => ids.length === 3), true);
      await world.hangUp(a);
      await reading;
      assert.deepEqual(world.shape(), ["> GEN 1", "> STOP", "< DONE", "> GEN 2", "< DONE"]);
      assertAtRest(world);
    }),
  },
  {
    number: 4,
    title: "the caller throws: the same exception comes out, the turn is drained, B is fine",
    play: inWorld({ scripts: [{ turns: [{ tokens: 12, sendFirst: 2, hold: "stop-or-next" }] }] }, async (world) => {
      const a = world.call(1);
      const b = world.call(2);
      world.armNextRelease(b.ended);
      const reading = world.read(b);
      await world.read(a, (ids) => ids.length === 1);
      const mine = new Error("the caller's own");
      await assert.rejects(a.turn.tokens.throw(mine), (error) => error === mine);
      await reading;
      assert.deepEqual(b.ids, ownTokens(2));
      assert.deepEqual(world.shape(), ["> GEN 1", "> STOP", "< DONE", "> GEN 2", "< DONE"]);
      assertAtRest(world);
    }),
  },
  {
    number: 5,
    title: "a delayed DONE: no second GEN before the first DONE was read",
    play: inWorld({ scripts: [{ turns: [{ hold: "manual" }] }] }, async (world) => {
      const a = world.call(1);
      const b = world.call(2);
      const reading = world.read(b);
      await world.read(a, (ids) => ids.at(-1) === END_TOKEN);
      const closing = world.hangUp(a);
      await world.line(({ text }) => text === "> STOP" || text.startsWith("> GEN 64 2,"));
      world.engines[0]?.release();
      await Promise.all([closing, reading]);
      assert.deepEqual(world.shape(), ["> GEN 1", "> STOP", "< DONE", "> GEN 2", "< DONE"]);
      assert.deepEqual(b.ids, ownTokens(2));
      assertAtRest(world);
    }),
  },
  {
    number: 17,
    title: "over OS pipes, tokens: as 1",
    play: inWorld({ scripts: [{ turns: [heldDone] }], pipes: true }, (world) => endThenSuccessor(world, false)),
  },
  {
    number: 18,
    title: "over OS pipes, tokens and statistics: as 1 and 8",
    play: inWorld({ scripts: [{ turns: [heldDone] }], pipes: true }, (world) => endThenSuccessor(world, true)),
  },
  {
    number: 21,
    title: "a late STOP: a finished turn's STOP never reaches the successor",
    play: inWorld({ scripts: [{ turns: [heldDone, { sendFirst: 1, hold: "manual" }] }] }, async (world) => {
      const a = world.call(1);
      const b = world.call(2);
      world.armNextRelease(b.ended);
      const reading = world.read(b);
      await world.read(a, (ids) => ids.at(-1) === END_TOKEN);
      const closing = world.hangUp(a);
      await world.line(({ text }) => text === "< T 2001");
      // The successor's turn is under way. Whoever closes late closes now: all that can run without another line runs.
      await new Promise((resolve) => setImmediate(resolve));
      world.engines[0]?.release();
      await Promise.all([reading, closing]);
      const stopAt = world.wire.findIndex(({ text }) => text === "> STOP");
      const successorAt = world.wire.findIndex(({ text }) => text.startsWith("> GEN 64 2,"));
      assert.ok(
        stopAt === -1 || stopAt < successorAt,
        `STOP is line ${stopAt}, the successor's GEN line ${successorAt}`,
      );
    }),
  },
];
