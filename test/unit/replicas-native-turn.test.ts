import test from "ava";
import { EngineLost, EngineRefused, EngineSilent } from "../../gpu-agent/src/replicas/errors.ts";
import { type OwnedTurn, openOwnedTurn } from "../../gpu-agent/src/replicas/owned-turn.ts";
import type { EngineRequest } from "../../gpu-agent/src/replicas/wire.ts";
import {
  doneLine,
  type FakeFleet,
  type FakeProcess,
  type ManualClock,
  promiseJobs,
  requestOf,
  startFleet,
  testLimits,
} from "../helpers/fake-engine.ts";

interface Bench {
  readonly fleet: FakeFleet;
  readonly process: FakeProcess;
  readonly clock: ManualClock;
  readonly abort: AbortController;
  open(request?: EngineRequest, signal?: AbortSignal): OwnedTurn;
}

const bench = async (capabilities?: string): Promise<Bench> => {
  const fleet = await startFleet(1, capabilities);
  const abort = new AbortController();
  return {
    fleet,
    process: fleet.process(0),
    clock: fleet.clock,
    abort,
    open: (request = requestOf(4), signal = abort.signal) =>
      openOwnedTurn(fleet.pool.admit(request, signal), request, signal),
  };
};

/** A promise with its outcome visible: undefined while pending. */
const watch = <T>(promise: Promise<T>): { value: T | undefined; error: unknown } => {
  const seen: { value: T | undefined; error: unknown } = { value: undefined, error: undefined };
  promise.then(
    (value) => {
      seen.value = value;
    },
    (error: unknown) => {
      seen.error = error;
    },
  );
  return seen;
};

const isFree = ({ fleet }: Bench): boolean =>
  fleet.pool.inflight === 0 && fleet.replica(0).engine?.leases.held === 0 && fleet.clock.pending === 0;

test("a turn writes GEN, hands its tokens out in order, and ends with its DONE", async (t) => {
  const own = await bench();
  const turn = own.open();
  const first = turn.tokens.next();
  await promiseJobs();
  t.deepEqual(own.process.written, [`GEN 16 salt=${requestOf(4).salt} turn=1 1,2,3,4`]);
  await own.process.say("RESUME 0 turn=1", "PP 4 4 1.0 4 turn=1", "T 7 turn=1", "T 8 turn=1");
  t.deepEqual((await first).value, [7, 8]);
  t.is(turn.statistics(), null);
  const second = turn.tokens.next();
  await own.process.say("T 9 turn=1", `${doneLine(3, 4)} turn=1`);
  t.deepEqual((await second).value, [9]);
  t.true((await turn.tokens.next()).done);
  t.like(turn.statistics(), { generated: 3, promptTokens: 4, finish: "stop" });
  t.is(own.process.written.length, 1);
  t.true(isFree(own));
});

test("an engine that says nothing for the silence limit is killed, and the turn ends as silent", async (t) => {
  const own = await bench();
  const pull = watch(own.open().tokens.next());
  await own.clock.advance(testLimits.silenceMs - 1);
  t.is(pull.error, undefined);
  await own.clock.advance(1);
  t.true(pull.error instanceof EngineSilent);
  t.deepEqual(own.process.signals, ["SIGKILL"]);
  t.is(own.fleet.pool.inflight, 0);
});

test("every line of any kind starts the silence limit anew", async (t) => {
  const own = await bench();
  const turn = own.open();
  const pull = watch(turn.tokens.next());
  for (const line of ["RESUME 0 turn=1", "PP 2 4 1.0 1 turn=1", "WHATEVER", "T 5 turn=77", "PP 4 4 1.0 1 turn=1"]) {
    await own.clock.advance(testLimits.silenceMs - 1);
    t.is(pull.error, undefined, line);
    await own.process.say(line);
  }
  await own.clock.advance(testLimits.silenceMs - 1);
  await own.process.say("T 5 turn=1");
  t.deepEqual(pull.value, { done: false, value: [5] });
});

test("slow prefill chunks stretch the silence limit to three of them", async (t) => {
  const own = await bench();
  const pull = watch(own.open().tokens.next());
  const chunkMs = testLimits.silenceMs;
  await promiseJobs();
  await own.process.say(`PP 2 4 ${chunkMs} 1 turn=1`);
  await own.clock.advance(3 * chunkMs - 1);
  t.is(pull.error, undefined);
  await own.clock.advance(1);
  t.true(pull.error instanceof EngineSilent);
});

test("the lease of a silent engine is not given on before its process is gone", async (t) => {
  const own = await bench();
  own.process.immortal = true;
  const pull = watch(own.open().tokens.next());
  await own.clock.advance(testLimits.silenceMs);
  t.deepEqual(own.process.signals, ["SIGKILL"]);
  t.is(pull.error, undefined);
  t.is(own.fleet.replica(0).engine?.leases.held, 1);
  t.is(own.fleet.pool.inflight, 1);
  await own.process.exit({ code: null, signal: "SIGKILL" });
  t.true(pull.error instanceof EngineSilent);
  t.is(own.fleet.pool.inflight, 0);
});

test("the lease of a process that outlives SIGKILL is given on when it is abandoned", async (t) => {
  const own = await bench();
  own.process.immortal = true;
  const pull = watch(own.open().tokens.next());
  await own.clock.advance(testLimits.silenceMs + testLimits.killTimeoutMs - 1);
  t.is(pull.error, undefined);
  await own.clock.advance(1);
  t.true(pull.error instanceof EngineSilent);
  t.is(own.fleet.replica(0).state, "abandoned");
  t.is(own.fleet.pool.inflight, 0);
});

/** A turn of which one token was read. */
const running = async (own: Bench): Promise<OwnedTurn> => {
  const turn = own.open();
  const pull = turn.tokens.next();
  await promiseJobs();
  await own.process.say("T 5 turn=1");
  await pull;
  return turn;
};

test("a turn that is closed early says STOP once, drains to its DONE, and keeps what DONE says", async (t) => {
  const own = await bench();
  const turn = await running(own);
  const close = watch(turn.tokens.return());
  await promiseJobs();
  t.is(own.process.written.at(-1), "STOP turn=1");
  await own.process.say("T 6 turn=1", "T 7 turn=1");
  await own.clock.advance(testLimits.drainMs - 1);
  t.is(close.value, undefined);
  t.is(own.fleet.replica(0).engine?.leases.held, 1);
  await own.process.say(`${doneLine(3, 4, "cancel")} turn=1`);
  t.true(close.value?.done);
  t.like(turn.statistics(), { generated: 3, finish: "cancel" });
  t.deepEqual(own.process.written.filter((line) => line.startsWith("STOP")).length, 1);
  t.true(isFree(own));
});

test("a thrown error drains as a close does, and comes back the same", async (t) => {
  const own = await bench();
  const turn = await running(own);
  const boom = new Error("boom");
  const thrown = watch(turn.tokens.throw(boom));
  await promiseJobs();
  t.is(own.process.written.at(-1), "STOP turn=1");
  t.is(thrown.error, undefined);
  await own.process.say(`${doneLine(1, 4, "cancel")} turn=1`);
  t.is(thrown.error, boom);
  t.true(isFree(own));
});

test("an aborted signal ends a read that is pending", async (t) => {
  const own = await bench();
  const turn = await running(own);
  const pull = watch(turn.tokens.next());
  own.abort.abort();
  await promiseJobs();
  t.is(own.process.written.at(-1), "STOP turn=1");
  await own.process.say(`${doneLine(1, 4, "cancel")} turn=1`);
  t.true(pull.value?.done);
  t.true(isFree(own));
});

test("a turn whose signal is aborted when the lease comes writes nothing", async (t) => {
  const own = await bench();
  const turn = own.open();
  own.abort.abort();
  t.true((await turn.tokens.next()).done);
  t.deepEqual(own.process.written, []);
  t.is(turn.statistics(), null);
  t.true(isFree(own));
});

test("no STOP is written when the DONE lies there already, or an ERR does", async (t) => {
  for (const last of [doneLine(2, 4), "ERR no"]) {
    const own = await bench();
    const turn = await running(own);
    await own.process.say("T 6 turn=1", `${last} turn=1`);
    await turn.tokens.return();
    t.is(own.process.written.length, 1, last);
    t.is(turn.statistics()?.generated, last.startsWith("DONE") ? 2 : undefined);
    t.true(isFree(own));
  }
});

test("an engine that does not come back within the drain allowance is killed", async (t) => {
  const own = await bench();
  const turn = await running(own);
  const close = watch(turn.tokens.return());
  await own.clock.advance(testLimits.drainMs - 1);
  t.deepEqual(own.process.signals, []);
  await own.clock.advance(1);
  t.deepEqual(own.process.signals, ["SIGKILL"]);
  t.true(close.error instanceof EngineSilent);
  t.is(own.fleet.pool.inflight, 0);
});

test("the error of a drain keeps the caller's error as its cause", async (t) => {
  const own = await bench();
  const turn = await running(own);
  const boom = new Error("boom");
  const thrown = watch(turn.tokens.throw(boom));
  await own.clock.advance(testLimits.drainMs);
  t.true(thrown.error instanceof EngineSilent);
  t.is((thrown.error as Error).cause, boom);
});

test("tokens of an engine that honours STOP do not extend the drain allowance", async (t) => {
  const own = await bench();
  const turn = await running(own);
  const close = watch(turn.tokens.return());
  await own.clock.advance(testLimits.drainMs - 1);
  await own.process.say("T 6 turn=1");
  await own.clock.advance(1);
  t.true(close.error instanceof EngineSilent);
});

test("prefill progress extends the drain allowance: a long prefill is no hang", async (t) => {
  const own = await bench();
  const turn = own.open();
  const pull = watch(turn.tokens.next());
  await promiseJobs();
  own.abort.abort();
  await own.clock.advance(testLimits.drainMs - 1);
  await own.process.say("PP 1 4 2.0 1 turn=1");
  await own.clock.advance(testLimits.silenceMs - 1);
  t.is(pull.error, undefined);
  const chunkMs = testLimits.silenceMs;
  await own.process.say(`PP 2 4 ${chunkMs} 1 turn=1`);
  await own.clock.advance(3 * chunkMs - 1);
  t.is(pull.error, undefined);
  await own.clock.advance(1);
  t.true(pull.error instanceof EngineSilent);
});

test("an engine without stop gets no STOP and may run out as long as it makes tokens", async (t) => {
  const own = await bench("turns");
  const turn = await running(own);
  const close = watch(turn.tokens.return());
  for (let tokens = 0; tokens < 10; tokens++) {
    await own.clock.advance(testLimits.drainMs - 1);
    t.is(close.error, undefined);
    await own.process.say("T 6 turn=1");
  }
  await own.process.say(`${doneLine(11, 4, "length")} turn=1`);
  t.true(close.value?.done);
  t.deepEqual(own.process.written.length, 1);
  t.true(isFree(own));
});

test("an engine without stop that falls silent in the drain is killed", async (t) => {
  const own = await bench("turns");
  const turn = await running(own);
  const close = watch(turn.tokens.return());
  await own.clock.advance(testLimits.drainMs - 1);
  await own.process.say("T 6 turn=1");
  await own.clock.advance(testLimits.drainMs);
  t.true(close.error instanceof EngineSilent);
});

test("an engine without tags is addressed without them", async (t) => {
  const own = await bench("stop");
  const turn = own.open({ ...requestOf(2), salt: "" });
  const pull = turn.tokens.next();
  await promiseJobs();
  await own.process.say("T 5");
  await pull;
  const close = turn.tokens.return();
  await promiseJobs();
  t.deepEqual(own.process.written, ["GEN 16 1,2", "STOP"]);
  await own.process.say(doneLine(1, 2, "cancel"));
  await close;
  t.true(isFree(own));
});

test("ERR ends the turn as refused, with the engine's words, and the next one is served", async (t) => {
  const own = await bench();
  const refused = own.open();
  const next = own.open();
  const pull = watch(refused.tokens.next());
  const nextPull = watch(next.tokens.next());
  await promiseJobs();
  await own.process.say("ERR the prompt is too long turn=1");
  t.true(pull.error instanceof EngineRefused);
  t.is((pull.error as Error).message, "the prompt is too long");
  t.is(refused.statistics(), null);
  await own.process.say("T 5 turn=2", `${doneLine(1, 4)} turn=2`);
  t.deepEqual(nextPull.value, { done: false, value: [5] });
  t.true((await next.tokens.next()).done);
  t.deepEqual(
    own.process.written.map((line) => line.split(" ")[0]),
    ["GEN", "GEN"],
  );
  t.true(isFree(own));
});

test("the end of the output ends the turn as lost, before and after a token, and while it drains", async (t) => {
  const before = await bench();
  const first = watch(before.open().tokens.next());
  await promiseJobs();
  await before.process.end();
  t.true(first.error instanceof EngineLost);

  const after = await bench();
  const second = watch((await running(after)).tokens.next());
  await after.process.end();
  t.true(second.error instanceof EngineLost);

  const draining = await bench();
  const third = watch((await running(draining)).tokens.return());
  await promiseJobs();
  await draining.process.exit({ code: 139, signal: null });
  t.true(third.error instanceof EngineLost);
  for (const own of [before, after, draining]) t.is(own.fleet.pool.inflight, 0);
});

test("tokens that came before the end of the output are still handed out", async (t) => {
  const own = await bench();
  const turn = own.open();
  const pull = turn.tokens.next();
  await promiseJobs();
  await own.process.say("T 5 turn=1", "T 6 turn=1");
  await own.process.end();
  t.deepEqual((await pull).value, [5, 6]);
  await t.throwsAsync(turn.tokens.next(), { instanceOf: EngineLost });
});

test("a turn that waits for its lease is told when the engine ends", async (t) => {
  const own = await bench();
  await running(own);
  const waiting = watch(own.open().tokens.next());
  await promiseJobs();
  t.is(own.fleet.pool.waiting, 1);
  await own.process.end();
  t.true(waiting.error instanceof EngineLost);
});

test("a turn that waits and is aborted ends with the signal's reason, and the queue goes on", async (t) => {
  const own = await bench();
  const first = await running(own);
  const abort = new AbortController();
  const waiting = watch(own.open(requestOf(4), abort.signal).tokens.next());
  const last = watch(own.open().tokens.next());
  await promiseJobs();
  abort.abort("left");
  await promiseJobs();
  t.is(waiting.error, "left");
  t.is(own.process.written.length, 1);
  const end = first.tokens.next();
  await own.process.say(`${doneLine(1, 4)} turn=1`);
  await end;
  await own.process.say("T 8 turn=3");
  t.deepEqual(last.value, { done: false, value: [8] });
});

test("statistics belong to the turn: a successor's DONE does not change them", async (t) => {
  const own = await bench();
  const [first, second] = [own.open(), own.open(requestOf(9, 16, 500))];
  const pulls = [first.tokens.next(), second.tokens.next()];
  await promiseJobs();
  await own.process.say(`${doneLine(0, 4, "length")} turn=1`);
  await own.process.say(`${doneLine(0, 9, "length")} turn=2`);
  await Promise.all(pulls);
  t.is(first.statistics()?.promptTokens, 4);
  t.is(second.statistics()?.promptTokens, 9);
  t.true(Object.isFrozen(first.statistics()));
});
