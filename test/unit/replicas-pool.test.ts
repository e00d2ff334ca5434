import assert from "node:assert/strict";
import test from "ava";
import fc from "fast-check";
import { NoReplica, QueueFull } from "../../gpu-agent/src/replicas/errors.ts";
import { healPauseMs } from "../../gpu-agent/src/replicas/heal.ts";
import { openOwnedTurn } from "../../gpu-agent/src/replicas/owned-turn.ts";
import {
  doneLine,
  type FakeFleet,
  promiseJobs,
  requestOf,
  spawnFleet,
  startFleet,
  testLimits,
} from "../helpers/fake-engine.ts";

const never = new AbortController().signal;

/** Serves a whole turn on whichever replica it goes to; returns that. */
const serve = async (fleet: FakeFleet, request = requestOf(640), finish = "stop"): Promise<number> => {
  const admission = fleet.pool.admit(request, never);
  const turn = openOwnedTurn(admission, request, never);
  const pull = turn.tokens.next();
  await promiseJobs();
  const { index } = admission.replica;
  await fleet.process(index).say(`${doneLine(0, request.prompt.length, finish)} turn=${admission.turn}`);
  await pull;
  return index;
};

test("with no replica ready there is nowhere to go, and the error says how each is", async (t) => {
  const fleet = spawnFleet(2);
  t.throws(() => fleet.pool.admit(requestOf(4), never), {
    instanceOf: NoReplica,
    message: /replica 0 starting.*replica 1 starting/,
  });
  t.is(fleet.pool.inflight, 0);
  t.is(fleet.pool.contextTokens, undefined);
  await fleet.process(1).say("READY 4096 stop turns");
  t.is(fleet.pool.admit(requestOf(4), never).replica.index, 1);
});

test("the context is the smallest among the replicas that are usable", async (t) => {
  const fleet = spawnFleet(2);
  await fleet.process(0).say("READY 4096 stop turns");
  t.is(fleet.pool.contextTokens, 4096);
  await fleet.process(1).say("READY 1024 stop turns");
  t.is(fleet.pool.contextTokens, 1024);
  await fleet.process(1).end();
  t.is(fleet.pool.contextTokens, 4096);
});

test("turns that run at once are spread over the replicas", async (t) => {
  const fleet = await startFleet(3);
  const indexes = Array.from(
    { length: 6 },
    (_, at) => fleet.pool.admit(requestOf(4, 16, 50 * at), never).replica.index,
  );
  t.deepEqual(indexes, [0, 1, 2, 0, 1, 2]);
  t.is(fleet.pool.inflight, 6);
  t.is(fleet.pool.waiting, 3);
});

test("turns one after another are spread too, where no prefix speaks against it", async (t) => {
  const fleet = await startFleet(2);
  const indexes = [];
  for (let turn = 0; turn < 4; turn++) indexes.push(await serve(fleet, requestOf(40, 16, 1_000 * turn)));
  t.deepEqual(indexes, [0, 1, 0, 1]);
});

test("field report 5: a replica that comes back gets its share of the turns, and not what it missed", async (t) => {
  const fleet = await startFleet(2);
  const next = async (turn: number) => serve(fleet, requestOf(40, 16, 1_000 * turn));
  await fleet.process(0).end();
  await fleet.process(0).exit({ code: null, signal: "SIGKILL" });
  for (let turn = 0; turn < 20; turn++) t.is(await next(turn), 1);
  await fleet.clock.advance(testLimits.healCooldownMs);
  await fleet.process(0).say("READY 4096 stop turns");
  const indexes = [];
  for (let turn = 20; turn < 30; turn++) indexes.push(await next(turn));
  t.deepEqual(indexes, [0, 1, 0, 1, 0, 1, 0, 1, 0, 1]);
});

test("a prompt goes to the replica that holds its beginning", async (t) => {
  const fleet = await startFleet(2);
  t.is(await serve(fleet), 0);
  t.is(await serve(fleet, requestOf(4, 16, 90_000)), 1);
  for (let turn = 0; turn < 3; turn++) t.is(await serve(fleet), 0);
});

test("field report 6: 1,000 engines lost in mid-turn leave nothing in flight, no timer and nothing to route by", async (t) => {
  const fleet = await startFleet(1);
  const timersAtRest = fleet.clock.pending;
  for (let loss = 0; loss < 1_000; loss++) {
    const request = requestOf(640, 16, 1_000 * loss);
    const admission = fleet.pool.admit(request, never);
    const turn = openOwnedTurn(admission, request, never);
    const pull = turn.tokens.next().catch(() => undefined);
    // One more that waits for the same slot, and is lost with it.
    const waiting = openOwnedTurn(fleet.pool.admit(request, never), request, never);
    const waitingPull = waiting.tokens.next().catch(() => undefined);
    await promiseJobs();
    await fleet.process(0).say(`T 5 turn=${admission.turn}`);
    await fleet.process(0).exit({ code: null, signal: "SIGKILL" });
    await Promise.all([pull, waitingPull]);
    for (const { tokens } of [turn, waiting]) await tokens.return().catch(() => undefined);
    t.is(fleet.pool.inflight, 0);
    await fleet.clock.advance(healPauseMs(loss + 1, testLimits.healCooldownMs));
    await fleet.process(0).say("READY 4096 stop turns");
  }
  t.is(fleet.replica(0).heals, 1_000);
  t.is(fleet.pool.waiting, 0);
  t.is(fleet.replica(0).engine?.leases.held, 0);
  t.is(fleet.pool.index.size, 0);
  t.is(fleet.clock.pending, timersAtRest);
});

test("another tenant's prompt is not drawn to it", async (t) => {
  const fleet = await startFleet(2);
  t.is(await serve(fleet), 0);
  t.is(await serve(fleet, { ...requestOf(640), salt: "ffff" }), 1);
});

test("an answer that was not finite makes the router forget that replica's cache alone", async (t) => {
  const fleet = await startFleet(2);
  const [first, second] = [requestOf(640), requestOf(640, 16, 90_000)];
  t.is(await serve(fleet, first), 0);
  t.is(await serve(fleet, second), 1);
  const { size } = fleet.pool.index;
  t.is(await serve(fleet, first, "nonfinite"), 0);
  t.is(fleet.pool.index.size, size / 2);
  t.is(await serve(fleet, second), 1);
});

test("a replica that ends is forgotten, and comes back empty", async (t) => {
  const fleet = await startFleet(2);
  t.is(await serve(fleet), 0);
  await fleet.process(0).end();
  t.is(fleet.pool.index.size, 0);
  t.is(await serve(fleet), 1);
  await fleet.clock.advance(testLimits.healCooldownMs);
  await fleet.process(0).say("READY 4096 stop turns");
  t.is(await serve(fleet), 1);
});

test("a turn that settles after its engine was lost is not taken for what the next engine holds", async (t) => {
  const fleet = await startFleet(1);
  const admission = fleet.pool.admit(requestOf(640), never);
  await admission.lease;
  await fleet.process(0).end();
  admission.settle([]);
  t.is(fleet.pool.index.size, 0);
  t.is(fleet.pool.inflight, 0);
});

test("a queue refuses at its bound, and the refusal is not counted", async (t) => {
  const fleet = await startFleet(1);
  for (let turn = 0; turn <= testLimits.maxWaiting; turn++) fleet.pool.admit(requestOf(4), never);
  const before = fleet.pool.inflight;
  t.is(fleet.pool.waiting, testLimits.maxWaiting);
  t.throws(() => fleet.pool.admit(requestOf(4), never), { instanceOf: QueueFull });
  t.is(fleet.pool.inflight, before);
});

test("a batched replica takes a turn a slot, each with its own statistics, and no lock over all", async (t) => {
  const fleet = await startFleet(1, "stop turns slots=2");
  const requests = [requestOf(4), requestOf(5, 16, 100)];
  const turns = requests.map((request) => openOwnedTurn(fleet.pool.admit(request, never), request, never));
  const pulls = turns.map((turn) => turn.tokens.next());
  await promiseJobs();
  t.deepEqual(
    fleet.process(0).written.map((line) => line.split(" ").slice(0, 2).join(" ")),
    ["BGEN 0", "BGEN 1"],
  );
  t.is(fleet.pool.waiting, 0);
  await fleet
    .process(0)
    .say(
      `B${doneLine(2, 5, "length").replace("DONE", "DONE 1")} turn=2`,
      `B${doneLine(1, 4).replace("DONE", "DONE 0")} turn=1`,
    );
  await Promise.all(pulls);
  t.deepEqual(
    turns.map((turn) => turn.statistics()?.promptTokens),
    [4, 5],
  );
  t.is(fleet.pool.inflight, 0);
});

test("a batched replica gives a turn the free slot that holds its beginning", async (t) => {
  const fleet = await startFleet(1, "stop turns slots=3");
  const slotOf = async (first: number): Promise<number> => {
    const admission = fleet.pool.admit(requestOf(8, 16, first), never);
    const { slot } = await admission.lease;
    admission.settle([]);
    await admission.abandon();
    return slot;
  };
  t.deepEqual([await slotOf(0), await slotOf(100), await slotOf(200)], [0, 1, 2]);
  t.deepEqual([await slotOf(200), await slotOf(0), await slotOf(100)], [2, 0, 1]);
});

test("a slot whose turn left its cache in doubt is not taken for what it held before", async (t) => {
  const fleet = await startFleet(1, "stop turns slots=2");
  const slotOf = async (answer: readonly number[] | null): Promise<number> => {
    const admission = fleet.pool.admit(requestOf(8), never);
    const { slot } = await admission.lease;
    admission.settle(answer);
    await admission.abandon();
    return slot;
  };
  t.is(await slotOf([]), 0);
  t.is(await slotOf(null), 0);
  t.is(await slotOf([]), 1);
});

test("settling twice counts once", async (t) => {
  const fleet = await startFleet(1);
  const admission = fleet.pool.admit(requestOf(4), never);
  admission.settle(null);
  admission.settle([1]);
  t.is(fleet.pool.inflight, 0);
  t.is(fleet.replica(0).served, 1);
});

test("a place that is given back unused is passed on, granted or still in the queue", async (t) => {
  const fleet = await startFleet(1);
  const [first, second, third] = [1, 2, 3].map(() => fleet.pool.admit(requestOf(4), never));
  second?.settle(null);
  const givenBack = second?.abandon();
  first?.settle(null);
  await first?.abandon();
  await givenBack;
  t.is((await third?.lease)?.slot, 0);
  t.is(fleet.pool.inflight, 1);
});

test("a turn that was never pulled gives its place back when it is returned or thrown into", async (t) => {
  const fleet = await startFleet(1);
  const open = () => openOwnedTurn(fleet.pool.admit(requestOf(4), never), requestOf(4), never);
  const [first, second] = [open(), open()];
  await first.tokens.return();
  await t.throwsAsync(second.tokens.throw(new Error("boom")), { message: "boom" });
  t.deepEqual(fleet.process(0).written, []);
  t.is(fleet.pool.inflight, 0);
  t.is(fleet.replica(0).engine?.leases.free, 1);
});

test("a place whose signal is aborted is given back without an unhandled rejection", async (t) => {
  const fleet = await startFleet(1);
  const abort = new AbortController();
  await fleet.pool.admit(requestOf(4), never).lease;
  const waiting = fleet.pool.admit(requestOf(4), abort.signal);
  abort.abort(new Error("left"));
  waiting.settle(null);
  await waiting.abandon();
  t.is(fleet.pool.inflight, 1);
  t.is(fleet.pool.waiting, 0);
});

test("turn numbers are never used twice, over all replicas", async (t) => {
  const fleet = await startFleet(2);
  const numbers = [1, 2, 3, 4].map(() => fleet.pool.admit(requestOf(4), never).turn);
  t.is(new Set(numbers).size, 4);
});

test("stopping the pool stops every replica", async (t) => {
  const fleet = await startFleet(2);
  for (const { process } of fleet.engines) process.onCommand = () => void process.exit({ code: 0, signal: null });
  await fleet.pool.stop();
  t.deepEqual(
    fleet.pool.replicas.map(({ state }) => state),
    ["dead", "dead"],
  );
});

/** How a turn of the property below goes. */
const fate = fc.constantFrom("done", "refused", "closed", "unused", "aborted", "thrown", "crash", "silent");

test("field report 28: property: the books balance, no counter falls below 0, and the queue is free after any mix of ends", async (t) => {
  const play = async (replicas: number, fates: readonly string[]): Promise<void> => {
    const fleet = await startFleet(replicas, "stop turns");
    const turns = [];
    for (const how of fates) {
      const abort = new AbortController();
      try {
        const admission = fleet.pool.admit(requestOf(4), abort.signal);
        turns.push({ how, abort, admission, turn: openOwnedTurn(admission, requestOf(4), abort.signal) });
      } catch (error) {
        assert.ok(error instanceof QueueFull || error instanceof NoReplica);
      }
    }
    await Promise.all(
      turns.map(async ({ how, abort, admission, turn }) => {
        const process = fleet.process(admission.replica.index);
        const answer = (line: string) => {
          if (fleet.process(admission.replica.index) === process) void process.say(`${line} turn=${admission.turn}`);
        };
        if (how === "unused") return void (await turn.tokens.return());
        const pull = turn.tokens.next().catch(() => undefined);
        if (how === "aborted") abort.abort();
        await admission.lease.catch(() => {});
        await promiseJobs();
        if (how === "done") answer(doneLine(0, 4));
        else if (how === "refused") answer("ERR no");
        else if (how === "crash") void process.exit({ code: 1, signal: null });
        else if (how !== "silent") {
          answer("T 5");
          await promiseJobs();
          const end = (how === "thrown" ? turn.tokens.throw(new Error("boom")) : turn.tokens.return()).catch(
            () => undefined,
          );
          await promiseJobs();
          answer(doneLine(1, 4, "cancel"));
          await end;
        } else await fleet.clock.advance(2 * testLimits.silenceMs);
        await pull;
        await turn.tokens.return().catch(() => undefined);
        for (const replica of fleet.pool.replicas) assert.ok(replica.inflight >= 0);
      }),
    );
    assert.equal(fleet.pool.inflight, 0);
    assert.equal(fleet.pool.waiting, 0);
    for (const { engine } of fleet.pool.replicas) assert.equal(engine?.leases.held, 0);
    assert.equal(
      fleet.pool.replicas.reduce((sum, { served }) => sum + served, 0),
      turns.length,
    );
  };
  await t.notThrowsAsync(
    fc.assert(fc.asyncProperty(fc.integer({ min: 1, max: 3 }), fc.array(fate, { maxLength: 14 }), play), {
      numRuns: 150,
    }),
  );
});
