import test from "ava";
import { ClientGone } from "../../gpu-agent/src/turn/run-turn.ts";
import { promiseJobs, startFleet, testLimits } from "../helpers/fake-engine.ts";
import {
  A,
  allFree,
  B,
  begin,
  D,
  E,
  END,
  HALF,
  N,
  OTHER_HALF,
  start,
  stopsWritten,
  XEY,
} from "../helpers/fake-turn.ts";

test("a turn to its end token: the token is counted and has no text, and no STOP is written", async (t) => {
  const turn = await start();
  await turn.tokens([A, B]);
  await turn.tokens([A, END]);
  t.is(turn.result.outcome, undefined);
  await turn.done(4);
  t.like(await turn.outcome, { kind: "finished", reason: "stop", completionTokens: 4, turn: 1, replica: 0 });
  t.is((await turn.outcome).statistics?.generated, 4);
  t.deepEqual(turn.sink.flushed, ["ab", "a"]);
  t.is(stopsWritten(turn), 0);
  t.true(allFree(turn));
});

test("each run of tokens is flushed when it comes, not at the end", async (t) => {
  const turn = await start();
  for (const [count, id] of [A, B, A].entries()) {
    await turn.tokens([id]);
    t.is(turn.sink.flushed.length, count + 1);
  }
  await turn.done(3, "length");
  await turn.outcome;
});

test("a turn to its length ends as length, with every token counted", async (t) => {
  const turn = await start();
  await turn.tokens([A, B, A]);
  await turn.done(3, "length");
  t.like(await turn.outcome, { kind: "finished", reason: "length", completionTokens: 3 });
  t.is(turn.sink.all, "aba");
});

test("a stop string over several tokens ends the turn at the token that completes it", async (t) => {
  const turn = await start(["END"]);
  await turn.tokens([A, E]);
  t.is(turn.sink.all, "a");
  await turn.tokens([N, D, B, B]);
  t.is(stopsWritten(turn), 1);
  t.is(turn.result.outcome, undefined);
  await turn.done(6, "cancel");
  const outcome = await turn.outcome;
  t.like(outcome, { kind: "finished", reason: "stop", completionTokens: 4 });
  t.is(outcome.statistics?.generated, 6);
  t.is(turn.sink.all, "a");
  t.true(allFree(turn));
});

test("the same tokens give the same count and text, however they are cut into runs", async (t) => {
  const ids = [A, E, N, A, E, N, D, B];
  const outcomes = [];
  for (const size of [1, 2, 3, 8]) {
    const turn = await start(["END"]);
    for (let at = 0; at < ids.length; at += size) await turn.tokens(ids.slice(at, at + size));
    await turn.done(ids.length, "cancel");
    outcomes.push([turn.sink.all, (await turn.outcome).completionTokens]);
  }
  t.deepEqual(outcomes, new Array(4).fill(["aENa", 7]));
});

test("a stop string inside one token cuts the token's text", async (t) => {
  const turn = await start(["E"]);
  await turn.tokens([XEY]);
  await turn.done(1, "cancel");
  t.like(await turn.outcome, { kind: "finished", reason: "stop", completionTokens: 1 });
  t.is(turn.sink.all, "x");
});

test("a stop string that the model begins and never completes is text", async (t) => {
  const turn = await start(["END"]);
  await turn.tokens([A, E, N]);
  t.is(turn.sink.all, "a");
  await turn.done(3, "length");
  t.like(await turn.outcome, { kind: "finished", reason: "length", completionTokens: 3 });
  t.is(turn.sink.all, "aEN");
});

test("a character over two tokens comes whole, and half of one at the end as a replacement", async (t) => {
  const whole = await start();
  await whole.tokens([A, HALF]);
  t.is(whole.sink.all, "a");
  await whole.tokens([OTHER_HALF]);
  t.is(whole.sink.all, "aé");
  await whole.tokens([HALF]);
  await whole.done(4, "length");
  await whole.outcome;
  t.is(whole.sink.all, "aé�");
});

test("a stop string that the end of the text completes is found", async (t) => {
  const turn = await start(["�"]);
  await turn.tokens([A, HALF]);
  await turn.done(2, "length");
  t.like(await turn.outcome, { kind: "finished", reason: "stop", completionTokens: 2 });
  t.is(turn.sink.all, "a");
});

test("an engine that runs on past its end token is stopped, and what it ran on counts for nothing", async (t) => {
  for (const runs of [
    [[A, END, B, B]],
    [
      [A, END],
      [B, B],
    ],
  ]) {
    const turn = await start();
    for (const run of runs) await turn.tokens(run);
    t.is(stopsWritten(turn), 1);
    await turn.done(4, "cancel");
    t.like(await turn.outcome, { kind: "finished", reason: "stop", completionTokens: 2 });
    t.is(turn.sink.all, "a");
    t.true(allFree(turn));
  }
});

test("a turn aborted while it waits writes nothing and has no statistics", async (t) => {
  const fleet = await startFleet(1);
  const [first, second] = [await begin(fleet), await begin(fleet)];
  second.abort.abort();
  t.like(await second.outcome, { kind: "aborted", completionTokens: 0, statistics: null });
  t.is(second.process.written.length, 1);
  await first.done(0, "length");
  await first.outcome;
  t.true(allFree(first));
});

test("a turn aborted in its stream is stopped and drained before the lease passes on", async (t) => {
  const fleet = await startFleet(1);
  const [first, second] = [await begin(fleet), await begin(fleet)];
  await first.tokens([A]);
  first.abort.abort();
  await promiseJobs();
  t.is(stopsWritten(first), 1);
  t.is(first.result.outcome, undefined);
  t.is(first.process.written.filter((line) => line.startsWith("GEN")).length, 1);
  await first.tokens([B]);
  await first.done(2, "cancel");
  const outcome = await first.outcome;
  t.like(outcome, { kind: "aborted", completionTokens: 1 });
  t.is(outcome.statistics?.generated, 2);
  t.is(first.process.written.filter((line) => line.startsWith("GEN")).length, 2);
  await second.done(0, "length", 2);
  await second.outcome;
  t.true(allFree(first));
});

test("a turn aborted in its prefill is stopped and drained too", async (t) => {
  const turn = await start();
  await turn.process.say("PP 2 4 1.0 1 turn=1");
  turn.abort.abort();
  await promiseJobs();
  t.is(stopsWritten(turn), 1);
  await turn.done(0, "cancel");
  t.like(await turn.outcome, { kind: "aborted", completionTokens: 0 });
  t.true(allFree(turn));
});

test("an aborted turn whose engine does not come back is still aborted, and not moved", async (t) => {
  const turn = await start([], 2);
  turn.abort.abort();
  await turn.fleet.clock.advance(testLimits.drainMs);
  t.like(await turn.outcome, { kind: "aborted", statistics: null });
  t.deepEqual(turn.fleet.process(1).written, []);
  t.true(allFree(turn));
});

test("a sink whose client is gone ends the turn as aborted: stopped, drained, lease free", async (t) => {
  const turn = await start();
  turn.sink.answers = [undefined, Promise.reject(new ClientGone("gone"))];
  await turn.tokens([A]);
  await turn.tokens([B]);
  t.is(stopsWritten(turn), 1);
  await turn.done(2, "cancel");
  const outcome = await turn.outcome;
  t.like(outcome, { kind: "aborted", completionTokens: 2 });
  t.is(outcome.statistics?.finish, "cancel");
  t.true(allFree(turn));
});

test("no further token is taken while the sink is full", async (t) => {
  const turn = await start();
  const room = Promise.withResolvers<void>();
  turn.sink.answers = [room.promise];
  await turn.tokens([A]);
  await turn.tokens([B]);
  t.deepEqual(turn.sink.flushed, ["a"]);
  room.resolve();
  await promiseJobs();
  t.deepEqual(turn.sink.flushed, ["a", "b"]);
  await turn.done(2, "length");
  t.like(await turn.outcome, { kind: "finished", completionTokens: 2 });
});

test("what was consumed is never more than what was generated, and equal at a natural end", async (t) => {
  for (const [ids, finish, stops] of [
    [[A, B, END], "stop", []],
    [[A, B, A], "length", []],
    [[A, E, N, D, B], "cancel", ["END"]],
    [[A, END, B], "cancel", []],
  ] as const) {
    const turn = await start(stops);
    await turn.tokens(ids);
    await turn.done(ids.length, finish);
    const { completionTokens, statistics } = await turn.outcome;
    t.true(completionTokens <= (statistics?.generated ?? -1));
    if (finish !== "cancel") t.is(completionTokens, ids.length);
  }
});
