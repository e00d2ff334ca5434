import test from "ava";
import type { TurnOutcome } from "../../gpu-agent/src/turn/run-turn.ts";
import { SpooledMeter } from "../../gpu-agent/src/usage/usage-meter.ts";
import { doneLine, promiseJobs, startFleet } from "../helpers/fake-engine.ts";
import { A, begin, END, type Running } from "../helpers/fake-turn.ts";
import { MemorySpoolFiles } from "../helpers/memory-spool-files.ts";
import { openSpool } from "../helpers/usage-records.ts";

const request = { requestId: "req_1", keyId: null, model: "atlas", promptTokens: 4 };
const finished: TurnOutcome = {
  kind: "finished",
  reason: "stop",
  completionTokens: 2,
  statistics: null,
  turn: 1,
  replica: 0,
};

const metered = async (options: { readonly maxRecords?: number } = {}) => {
  const files = new MemorySpoolFiles();
  const { spool } = await openSpool(files, options);
  const logged: string[] = [];
  let nowMs = 1_000;
  const meter = new SpooledMeter({
    spool,
    agentId: "gpu-7",
    nowMs: () => nowMs++,
    log: (_, event) => void logged.push(event),
  });
  return { files, spool, logged, meter };
};

test("each attempt has a record of its own, and begins where the one before ended", async (t) => {
  const { spool, meter } = await metered();
  const account = meter.open(request);
  account?.settle({ ...finished, kind: "failed", code: "overloaded", message: "m", detail: "d" }, 1, false);
  account?.settle(finished, 2, true);
  const batch = await spool.next(10);
  if (batch.kind !== "records") return t.fail(batch.kind);
  t.deepEqual(
    batch.records.map(({ turn_id, outcome, final, started_at_ms, ended_at_ms }) => [
      turn_id,
      outcome,
      final,
      started_at_ms,
      ended_at_ms,
    ]),
    [
      ["req_1.1", "failed", false, 1_000, 1_001],
      ["req_1.2", "finished", true, 1_001, 1_002],
    ],
  );
});

test("a full spool opens no account; a disposed one gives its place back, once", async (t) => {
  const { meter } = await metered({ maxRecords: 1 });
  const account = meter.open(request);
  t.is(meter.open(request), undefined);
  account?.[Symbol.dispose]();
  account?.[Symbol.dispose]();
  t.truthy(meter.open(request));
  t.is(meter.open(request), undefined);
});

test("a finished turn whose record cannot be written has failed; one that failed anyway stays as it is", async (t) => {
  const { files, meter, logged, spool } = await metered();
  const account = meter.open(request);
  files.faults = [
    { at: files.calls.length + 2, kind: "before" }, // the segment is begun, the write fails
    { at: files.calls.length + 4, kind: "before" }, // after the repair
  ];
  t.like(account?.settle(finished, 1, true), { kind: "failed", code: "overloaded", completionTokens: 2, turn: 1 });
  const aborted: TurnOutcome = { completionTokens: 1, statistics: null, turn: 2, replica: 0, kind: "aborted" };
  t.is(account?.settle(aborted, 2, true), aborted);
  t.deepEqual(logged, ["usage_record_lost", "usage_record_lost"]);
  t.is(spool.backlog, 0);
});

test("without a spool every turn is let in and stays what it is", (t) => {
  const meter = new SpooledMeter({ spool: undefined, agentId: "gpu-7", nowMs: () => 1, log: () => {} });
  t.is(meter.open(request)?.settle(finished, 1, true), finished);
});

test("the meter is idle once every account is disposed of", async (t) => {
  const { meter } = await metered();
  await meter.idle;
  const accounts = [meter.open(request), meter.open(request)];
  let isIdle = false;
  void meter.idle.then(() => {
    isIdle = true;
  });
  for (const account of accounts) {
    await promiseJobs();
    t.false(isIdle);
    account?.[Symbol.dispose]();
  }
  await promiseJobs();
  t.true(isIdle);
});

test("the orchestrator settles a turn before its outcome is out, and what settling returns is the outcome", async (t) => {
  const settled: [TurnOutcome, number][] = [];
  const turn: Running = await begin(await startFleet(1), [], (outcome, attempt) => {
    settled.push([outcome, attempt]);
    t.is(turn.result.outcome, undefined);
    return { ...outcome, kind: "aborted" };
  });
  await turn.tokens([A, END]);
  await turn.done(2);
  t.is((await turn.outcome).kind, "aborted");
  t.is(settled.length, 1);
  t.like(settled[0]?.[0], { kind: "finished", completionTokens: 2 });
  t.is(settled[0]?.[1], 1);
});

test("a turn that moves is settled for each replica it was on, with the attempt's number", async (t) => {
  const settled: [string, number, number][] = [];
  const turn = await begin(await startFleet(2), [], (outcome, attempt) => {
    settled.push([outcome.kind, attempt, outcome.replica]);
    return outcome;
  });
  await turn.process.end();
  t.deepEqual(settled, [["failed", 1, 0]]);
  await turn.fleet.process(1).say("T 0 turn=2", `${doneLine(1, 4)} turn=2`);
  t.is((await turn.outcome).kind, "finished");
  t.deepEqual(settled, [
    ["failed", 1, 0],
    ["finished", 2, 1],
  ]);
});
