import test from "ava";
import { MAX_PLACEMENTS } from "../../gpu-agent/src/turn/run-turn.ts";
import { doneLine, startFleet, testLimits } from "../helpers/fake-engine.ts";
import { A, allFree, begin, D, E, END, N, OUTSIDE, start, stopsWritten } from "../helpers/fake-turn.ts";

test("ERR is an engine error, is not tried elsewhere, and its words stay inside", async (t) => {
  const turn = await start([], 2);
  await turn.process.say("ERR device 3 at 10.0.0.7 is full turn=1");
  const outcome = await turn.outcome;
  t.like(outcome, { kind: "failed", code: "engine_error", completionTokens: 0, statistics: null });
  t.true(outcome.kind === "failed" && !outcome.message.includes("10.0.0.7") && outcome.detail.includes("10.0.0.7"));
  t.deepEqual(turn.fleet.process(1).written, []);
  t.true(allFree(turn));
});

test("an engine that is lost before the first token: the turn moves to another replica, with a number of its own", async (t) => {
  const turn = await start([], 2);
  await turn.process.end();
  const other = turn.fleet.process(1);
  t.deepEqual(
    other.written.map((line) => line.replace(/ salt=\w+/, "")),
    ["GEN 16 turn=2 1,2,3,4"],
  );
  await other.say("T 1 turn=2", "T 0 turn=2", `${doneLine(2, 4)} turn=2`);
  t.like(await turn.outcome, { kind: "finished", completionTokens: 2, turn: 2, replica: 1 });
  t.is(turn.sink.all, "a");
  t.true(allFree(turn));
});

test("an engine that is silent before the first token: the turn moves too", async (t) => {
  const turn = await start([], 2);
  await turn.fleet.clock.advance(testLimits.silenceMs);
  t.is(turn.fleet.process(1).written.length, 1);
  await turn.fleet.process(1).say(`${doneLine(0, 4, "length")} turn=2`);
  t.like(await turn.outcome, { kind: "finished", reason: "length", replica: 1 });
});

test("a turn that waits in the queue of an engine that is lost moves as well", async (t) => {
  const fleet = await startFleet(2);
  const [first, second, third] = [await begin(fleet), await begin(fleet), await begin(fleet)];
  t.is(third.process, first.process);
  await first.process.end();
  await second.done(0, "length", 2);
  t.is(second.process.written.length, 2);
  await second.done(0, "length", 4);
  await second.done(0, "length", 5);
  for (const turn of [first, second, third]) t.like(await turn.outcome, { kind: "finished", replica: 1 });
  t.is(fleet.pool.inflight, 0);
});

test("an engine that is lost with no other alive: the turn fails as overloaded", async (t) => {
  const turn = await start();
  await turn.process.end();
  t.like(await turn.outcome, { kind: "failed", code: "overloaded", completionTokens: 0, statistics: null });
  t.true(allFree(turn));
});

test("an engine that is lost after the first token: the turn fails and is not run again", async (t) => {
  const turn = await start([], 2);
  await turn.tokens([A]);
  await turn.process.end();
  t.like(await turn.outcome, { kind: "failed", code: "overloaded", completionTokens: 1, statistics: null });
  t.deepEqual(turn.fleet.process(1).written, []);
  t.true(allFree(turn));
});

test("a turn is tried on a bounded number of replicas", async (t) => {
  const replicas = MAX_PLACEMENTS + 2;
  const turn = await start([], replicas);
  for (let tries = 0; tries < replicas; tries++) {
    for (const { process } of turn.fleet.engines) if (process.written.length > 0) await process.end();
  }
  t.like(await turn.outcome, { kind: "failed", code: "overloaded" });
  t.is(turn.fleet.engines.filter(({ process }) => process.written.length > 0).length, MAX_PLACEMENTS);
  t.true(allFree(turn));
});

test("an answer that is not finite before a token is tried once more, and then an error", async (t) => {
  const turn = await start([], 3);
  await turn.done(0, "nonfinite", 1);
  t.is(turn.result.outcome, undefined);
  const second = turn.fleet.engines.flatMap(({ process }) =>
    process.written.some((line) => line.includes("turn=2")) ? [process] : [],
  );
  t.is(second.length, 1);
  await second[0]?.say(`${doneLine(0, 4, "nonfinite")} turn=2`);
  const outcome = await turn.outcome;
  t.like(outcome, { kind: "failed", code: "engine_error", turn: 2 });
  t.is(outcome.statistics?.finish, "nonfinite");
  t.true(allFree(turn));
});

test("an answer that is finite at the second try is an answer", async (t) => {
  const turn = await start();
  await turn.done(0, "nonfinite", 1);
  await turn.tokens([A, END], 2);
  await turn.done(2, "stop", 2);
  t.like(await turn.outcome, { kind: "finished", reason: "stop", completionTokens: 2, turn: 2 });
});

test("an answer that is not finite after a token is an error at once", async (t) => {
  const turn = await start([], 2);
  await turn.tokens([A]);
  await turn.done(1, "nonfinite");
  t.like(await turn.outcome, { kind: "failed", code: "engine_error", completionTokens: 1 });
  t.deepEqual(turn.fleet.process(1).written, []);
});

test("a finish that nobody asked for is an error, never a normal end", async (t) => {
  for (const finish of ["error", "cancel"]) {
    const turn = await start();
    await turn.tokens([A]);
    await turn.done(1, finish);
    t.like(await turn.outcome, { kind: "failed", code: "engine_error" }, finish);
  }
});

test("an engine lost after the stop string: the answer is complete and stays so, without statistics", async (t) => {
  const turn = await start(["END"], 2);
  await turn.tokens([A, E, N, D]);
  await turn.process.end();
  t.like(await turn.outcome, { kind: "finished", reason: "stop", completionTokens: 4, statistics: null });
  t.deepEqual(turn.fleet.process(1).written, []);
  t.true(allFree(turn));
});

test("an engine that is silent after the stop string: the same", async (t) => {
  const turn = await start(["END"]);
  await turn.tokens([A, E, N, D]);
  await turn.fleet.clock.advance(testLimits.drainMs);
  t.like(await turn.outcome, { kind: "finished", reason: "stop", statistics: null });
  t.true(allFree(turn));
});

test("an engine lost after the end token: the answer is complete and stays so", async (t) => {
  const turn = await start([], 2);
  await turn.tokens([A, END]);
  await turn.process.end();
  t.like(await turn.outcome, { kind: "finished", reason: "stop", completionTokens: 2, statistics: null });
  t.is(turn.sink.all, "a");
  t.deepEqual(turn.fleet.process(1).written, []);
});

test("a token outside the vocabulary is a fault of ours, and the engine is drained", async (t) => {
  const turn = await start([], 2);
  await turn.tokens([A, OUTSIDE]);
  t.is(stopsWritten(turn), 1);
  await turn.done(2, "cancel");
  t.like(await turn.outcome, { kind: "failed", code: "internal_error", completionTokens: 2 });
  t.true(allFree(turn));
});
