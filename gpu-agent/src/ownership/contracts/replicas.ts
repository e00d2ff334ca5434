/** Contracts 6, 7 and 9-16: drains that fail, queues, errors, and what is independent of what. */
import assert from "node:assert/strict";
import { EngineRefused, EngineSilent, NoReplica } from "../../replicas/errors.ts";
import { prefixBlocks } from "../../replicas/prefix-index.ts";
import { areOwn, ownTokens } from "../world.ts";
import { assertAtRest, type Contract, inWorld } from "./contract.ts";

export const replicaContracts: readonly Contract[] = [
  {
    number: 6,
    title: "a failed drain: EngineSilent reaches the caller, the lock is free, the replica is not routed to",
    play: inWorld({ scripts: [{ turns: [{ hold: "forever" }] }] }, async (world) => {
      const a = world.call(1);
      await world.read(a, (ids) => ids.length === 1);
      const closing = world.hangUp(a);
      const outcome = closing.then(
        () => "no error",
        (error: unknown) => error,
      );
      await world.line(({ text }) => text === "> STOP");
      world.clock.fireNext();
      assert.ok((await outcome) instanceof EngineSilent, `the caller got ${String(await outcome)}`);
      assert.equal(world.pool.inflight, 0);
      assert.equal(world.pool.replicas[0]?.engine?.leases.held, 0);
      assert.throws(() => world.call(2), NoReplica);
    }),
  },
  {
    number: 7,
    title: "80 turns, four callers, two replicas: all get their own tokens; nothing in flight, locks free",
    play: inWorld({ scripts: [{}, {}] }, async (world) => {
      await Promise.all(
        [0, 1, 2, 3].map(async (lane) => {
          for (let turn = 0; turn < 20; turn++) {
            const caller = world.call(100 + lane * 20 + turn);
            await world.read(caller);
            assert.deepEqual(caller.ids, ownTokens(caller.owner));
          }
        }),
      );
      assertAtRest(world);
    }),
  },
  {
    number: 9,
    title: "a slow consumer, natural end: all tokens in order",
    play: inWorld({ scripts: [{ turns: [{ tokens: 500 }] }] }, async (world) => {
      const a = world.call(1, { maxTokens: 501 });
      for (let run = await a.turn.tokens.next(); !run.done; run = await a.turn.tokens.next()) {
        a.ids.push(...run.value);
        await new Promise((resolve) => setImmediate(resolve));
      }
      assert.deepEqual(a.ids, ownTokens(1, { tokens: 500 }));
      assertAtRest(world);
    }),
  },
  {
    number: 10,
    title: "cancelled in the queue: nothing sent, no statistics, nothing in flight",
    play: inWorld({ scripts: [{ turns: [{ hold: "stop-or-next" }] }] }, async (world) => {
      const a = world.call(1);
      await world.read(a, (ids) => ids.length === 1);
      const b = world.call(2);
      const pull = world.read(b);
      b.abort.abort(new Error("cancelled"));
      await assert.rejects(pull, /cancelled/);
      assert.equal(b.turn.statistics(), null);
      assert.equal(world.pool.inflight, 1);
      await world.hangUp(a);
      assert.ok(!world.wire.some(({ text }) => text.startsWith("> GEN 64 2,")));
      assertAtRest(world);
    }),
  },
  {
    number: 11,
    title: "a native ERR: a typed error, no STOP written, the next turn is served",
    play: inWorld({ scripts: [{ turns: [{ refuse: "prompt too long" }] }] }, async (world) => {
      const a = world.call(1);
      await assert.rejects(
        world.read(a),
        (error) => error instanceof EngineRefused && error.message === "prompt too long",
      );
      const b = world.call(2);
      await world.read(b);
      assert.deepEqual(b.ids, ownTokens(2));
      assert.deepEqual(world.shape(), ["> GEN 1", "< ERR", "> GEN 2", "< DONE"]);
      assertAtRest(world);
    }),
  },
  {
    number: 12,
    title: "nonfinite: only that replica's cache is forgotten",
    play: inWorld({ scripts: [{ turns: [{}, { finish: "nonfinite", tokens: 0 }] }, {}] }, async (world) => {
      const callers = [world.call(1, { promptTokens: 640 }), world.call(2, { promptTokens: 640 })];
      await Promise.all(callers.map((caller) => world.read(caller)));
      const held = () =>
        callers.map(({ request }, replica) => world.pool.index.heldTokens(replica, prefixBlocks("", request.prompt)));
      assert.deepEqual(held(), [640, 640]);
      const nan = world.call(1, { promptTokens: 640 });
      assert.equal(nan.admission.replica.index, 0);
      await world.read(nan);
      assert.deepEqual(held(), [0, 640]);
      assertAtRest(world);
    }),
  },
  {
    number: 13,
    title: "independent replicas: one runs while the other is held",
    play: inWorld({ scripts: [{ turns: [{ hold: "stop-or-next" }] }, {}] }, async (world) => {
      const a = world.call(1);
      await world.read(a, (ids) => ids.length === 1);
      const b = world.call(2);
      assert.equal(b.admission.replica.index, 1);
      await world.read(b);
      assert.deepEqual(b.ids, ownTokens(2));
      await world.hangUp(a);
      assertAtRest(world);
    }),
  },
  {
    number: 14,
    title: "an auxiliary request takes and frees the same ownership",
    play: inWorld({ scripts: [{ turns: [{ sendFirst: 1, hold: "manual" }] }] }, async (world) => {
      const a = world.call(1, { embeddingsFile: "/embeddings.bin" });
      const b = world.call(2);
      const reading = Promise.all([world.read(a), world.read(b)]);
      await world.line(({ text }) => text.startsWith("< T"));
      world.engines[0]?.release();
      await reading;
      assert.deepEqual([a.ids, b.ids], [ownTokens(1), ownTokens(2)]);
      assert.deepEqual(world.shape(), ["> GENI 1", "< DONE", "> GEN 2", "< DONE"]);
      assertAtRest(world);
    }),
  },
  {
    number: 15,
    title: "a batched engine: no run lock, statistics per slot",
    play: inWorld(
      { scripts: [{ capabilities: "stop turns slots=2", turns: [{ hold: "manual", sendFirst: 1 }, {}] }] },
      async (world) => {
        const a = world.call(1);
        const readingA = world.read(a);
        await world.line(({ text }) => text.startsWith("< BT 0"));
        const b = world.call(2);
        await world.read(b);
        world.engines[0]?.release(0);
        await readingA;
        assert.deepEqual([a.ids, b.ids], [ownTokens(1), ownTokens(2)]);
        assert.ok(areOwn(a, a.turn.statistics()));
        assert.ok(areOwn(b, b.turn.statistics()));
        assertAtRest(world);
      },
    ),
  },
  {
    number: 16,
    title: "router bookkeeping: prompt and answer are noted, none alive is a typed error, nothing in flight",
    play: inWorld({ scripts: [{ turns: [{ tokens: 127 }] }] }, async (world) => {
      const a = world.call(1, { promptTokens: 640, maxTokens: 200 });
      await world.read(a);
      const sequence = [...a.request.prompt, ...a.ids];
      assert.equal(world.pool.index.heldTokens(0, prefixBlocks("", sequence)), 768);
      assertAtRest(world);
      world.pool.replicas[0]?.engine?.process.kill("SIGKILL");
      await world.pool.replicas[0]?.engine?.exited;
      assert.throws(() => world.call(2), NoReplica);
      assert.equal(world.pool.index.size, 0);
      assert.equal(world.pool.inflight, 0);
    }),
  },
];
