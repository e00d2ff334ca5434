/** Contracts 22-28: what can go wrong in TypeScript and not in Python. */
import assert from "node:assert/strict";
import { createPieceTexts } from "../../prompt/detokenizer.ts";
import { EngineSilent } from "../../replicas/errors.ts";
import { ClientGone, runTurn } from "../../turn/run-turn.ts";
import { END_TOKEN } from "../scripted-engine.ts";
import { areOwn, ownTokens } from "../world.ts";
import { assertAtRest, type Contract, inWorld } from "./contract.ts";

/** A vocabulary in which every token is the letter x. */
const lettersOnly = (tokens: number) =>
  createPieceTexts({
    offsets: Uint32Array.from({ length: tokens + 1 }, (_, at) => at),
    bytes: new Uint8Array(tokens).fill(0x78),
  });

export const hazardContracts: readonly Contract[] = [
  {
    number: 22,
    title: "an abort reaches a read of the pipe that is pending",
    play: inWorld({ scripts: [{ turns: [{ sendFirst: 0, hold: "stop" }] }] }, async (world) => {
      const a = world.call(1);
      const pull = world.read(a);
      await world.line(({ text }) => text.startsWith("> GEN"));
      a.abort.abort(new Error("gone"));
      await pull.catch((error: unknown) => assert.equal((error as Error).message, "gone"));
      assert.deepEqual(world.shape(), ["> GEN 1", "> STOP", "< DONE"]);
      assert.equal(a.turn.statistics()?.finish, "cancel");
      assertAtRest(world);
    }),
  },
  {
    number: 23,
    title: "a caller that drops its iterator: the orchestrator gives the lock back",
    play: async (open) =>
      inWorld({ scripts: [{ turns: [{ tokens: 12, sendFirst: 2, hold: "stop-or-next" }] }] }, async (world) => {
        const a = world.admit(1);
        const outcome = await runTurn(
          {
            placeAgain: () => Promise.reject(new Error("there is no other place")),
            open,
            model: { pieceTexts: lettersOnly(2000), endTokens: new Set([END_TOKEN]) },
          },
          a.admission,
          { engine: a.request, stops: [] },
          a.abort.signal,
          { text: () => {}, flush: () => Promise.reject(new ClientGone("it reads no more")) },
        );
        assert.equal(outcome.kind, "aborted");
        assert.deepEqual(world.shape(), ["> GEN 1", "> STOP", "< DONE"]);
        const b = world.call(2);
        await world.read(b);
        assert.deepEqual(b.ids, ownTokens(2));
        assertAtRest(world);
      })(open),
  },
  {
    number: 24,
    title: "a cleanup error reaches the caller and keeps the earlier one as its cause",
    play: inWorld({ scripts: [{ turns: [{ hold: "forever" }] }] }, async (world) => {
      const a = world.call(1);
      await world.read(a, (ids) => ids.length === 1);
      const mine = new Error("the caller's own");
      const outcome = a.turn.tokens.throw(mine).then(
        () => undefined,
        (error: unknown) => error,
      );
      await world.line(({ text }) => text === "> STOP");
      world.clock.fireNext();
      const error = await outcome;
      assert.ok(error instanceof EngineSilent, `the caller got ${String(error)}`);
      assert.equal(error.cause, mine);
    }),
  },
  {
    number: 25,
    title: "everything that belongs to the turn happens before its release",
    play: inWorld({ scripts: [{}] }, async (world) => {
      const a = world.call(1);
      let atRelease: { inflight: number; own: boolean } | undefined;
      world.watchNextRelease(() => {
        atRelease = { inflight: world.pool.inflight, own: areOwn(a, a.turn.statistics()) };
      });
      await world.read(a);
      assert.deepEqual(atRelease, { inflight: 0, own: true });
      assertAtRest(world);
    }),
  },
  {
    number: 26,
    title: "statistics are fresh, frozen and nobody else's, also for turns that run at once",
    play: inWorld({ scripts: [{}, {}] }, async (world) => {
      const callers = [world.call(1), world.call(2)];
      await Promise.all(callers.map((caller) => world.read(caller)));
      const [first, second] = callers.map(({ turn }) => turn.statistics());
      for (const caller of callers) assert.ok(areOwn(caller, caller.turn.statistics()));
      assert.notEqual(first, second);
      assert.ok(Object.isFrozen(first) && Object.isFrozen(second));
    }),
  },
  {
    number: 27,
    title: "closing twice, after the end, or before the start: the lease is released once and the next turn is served",
    play: inWorld({ scripts: [{}] }, async (world) => {
      const unstarted = world.call(1);
      await world.hangUp(unstarted);
      await world.hangUp(unstarted);
      const a = world.call(2);
      await world.read(a);
      await world.hangUp(a);
      assert.equal((await a.turn.tokens.next()).done, true);
      const b = world.call(3);
      await world.read(b);
      assert.deepEqual(b.ids, ownTokens(3));
      assert.ok(!world.wire.some(({ text }) => text.startsWith("> GEN 64 1,")));
      assertAtRest(world);
    }),
  },
  {
    number: 28,
    title: "an abort while the caller holds a run of tokens: STOP, DONE, then the successor",
    play: inWorld({ scripts: [{ turns: [{ tokens: 12, sendFirst: 2, hold: "stop" }] }] }, async (world) => {
      const a = world.call(1);
      const b = world.call(2);
      const reading = world.read(b);
      await world.read(a, (ids) => ids.length === 1);
      a.abort.abort(new Error("gone"));
      await world.hangUp(a);
      await reading;
      assert.deepEqual(b.ids, ownTokens(2));
      assert.deepEqual(world.shape(), ["> GEN 1", "> STOP", "< DONE", "> GEN 2", "< DONE"]);
      assertAtRest(world);
    }),
  },
];
