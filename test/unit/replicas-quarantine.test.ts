import test from "ava";
import { EngineLost, EngineSilent, NoReplica } from "../../gpu-agent/src/replicas/errors.ts";
import { type OwnedTurn, openOwnedTurn } from "../../gpu-agent/src/replicas/owned-turn.ts";
import { doneLine, type FakeFleet, promiseJobs, requestOf, startFleet, testLimits } from "../helpers/fake-engine.ts";

const never = new AbortController().signal;
const batched = "stop turns slots=2";
const bdone = (slot: number, turn: number): string => `B${doneLine(1, 4).replace("DONE", `DONE ${slot}`)} turn=${turn}`;

const open = (fleet: FakeFleet, first: number): OwnedTurn => {
  const request = requestOf(4, 16, first);
  return openOwnedTurn(fleet.pool.admit(request, never), request, never);
};

/** Two turns run; the first is closed and does not come back; the drain allowance is over. */
const stuck = async (replicas = 1) => {
  const fleet = await startFleet(replicas, batched);
  const [first, second] = [open(fleet, 1), replicas === 1 ? open(fleet, 100) : undefined];
  const pulls = [first.tokens.next(), second?.tokens.next()];
  await promiseJobs();
  const { process } = fleet.engines[0] as FakeFleet["engines"][number];
  await process.say("BT 0 5 turn=1", ...(second === undefined ? [] : ["BT 1 6 turn=2"]));
  await Promise.all(pulls);
  const end: { error?: unknown } = {};
  first.tokens.return().catch((error: unknown) => {
    end.error = error;
  });
  await fleet.clock.advance(testLimits.drainMs - 1);
  if (second !== undefined) await process.say("BT 1 7 turn=2");
  await fleet.clock.advance(1);
  return { fleet, process, second, end };
};

test("a stuck slot's neighbour finishes within the grace, and the process is killed as soon as it has", async (t) => {
  const { fleet, process, second, end } = await stuck();
  t.deepEqual(process.signals, []);
  t.is(end.error, undefined);
  t.deepEqual((await second?.tokens.next())?.value, [7]);
  const last = second?.tokens.next();
  await fleet.clock.advance(testLimits.poisonGraceMs - 1);
  t.deepEqual(process.signals, []);
  await process.say(bdone(1, 2));
  t.true((await last)?.done);
  t.like(second?.statistics(), { generated: 1, finish: "stop" });
  t.deepEqual(process.signals, ["SIGKILL"]);
  t.true(end.error instanceof EngineSilent);
  t.is(fleet.pool.inflight, 0);
});

test("a neighbour that is not done within the grace is lost with the process", async (t) => {
  const { fleet, process, second, end } = await stuck();
  await second?.tokens.next();
  const last = t.throwsAsync(second?.tokens.next() ?? Promise.resolve(), { instanceOf: EngineLost });
  await fleet.clock.advance(testLimits.poisonGraceMs - 1);
  t.deepEqual(process.signals, []);
  await fleet.clock.advance(1);
  t.deepEqual(process.signals, ["SIGKILL"]);
  await last;
  t.true(end.error instanceof EngineSilent);
  t.is(fleet.pool.inflight, 0);
});

test("a process that ends by itself within the grace ends the grace", async (t) => {
  const { fleet, process, end } = await stuck();
  await process.exit({ code: 1, signal: null });
  t.true(end.error instanceof EngineSilent);
  t.deepEqual(process.signals, []);
  t.false(fleet.replica(0).engine?.usable);
});

test("without neighbours a stuck slot's process is killed at once", async (t) => {
  const { process, end } = await stuck(2);
  t.deepEqual(process.signals, ["SIGKILL"]);
  t.true(end.error instanceof EngineSilent);
});

test("a replica with a stuck slot admits nothing new, from the first moment on", async (t) => {
  const { fleet } = await stuck();
  t.false(fleet.replica(0).engine?.usable);
  t.throws(() => open(fleet, 200), { instanceOf: NoReplica });
});

test("while one replica has a stuck slot turns go to the other, however well the first knows their prompt", async (t) => {
  const fleet = await startFleet(2, batched);
  const known = requestOf(6_400);
  const admission = fleet.pool.admit(known, never);
  await admission.lease;
  admission.settle([]);
  await admission.abandon();
  t.is(fleet.pool.admit(known, never).replica.index, admission.replica.index);
  const engine = admission.engine;
  engine.lane(1).begin(99, 5, 0);
  void engine.quarantine(engine.lane(0), "stuck");
  t.not(fleet.pool.admit(known, never).replica.index, admission.replica.index);
});
