import test from "ava";
import { NoReplica, QueueFull } from "../../gpu-agent/src/replicas/errors.ts";
import { AdmissionQueue, DeadlineExceeded, type Ticket } from "../../gpu-agent/src/turn/admission-queue.ts";
import { Pace } from "../../gpu-agent/src/turn/pace.ts";
import { type FakeFleet, promiseJobs, requestOf, startFleet } from "../helpers/fake-engine.ts";

interface Setup {
  readonly fleet: FakeFleet;
  readonly queue: AdmissionQueue;
  readonly pace: Pace;
  readonly enter: (options?: { dueMs?: number; again?: boolean; signal?: AbortSignal }) => Ticket;
}

const setUp = async (replicas = 1, maxWaiting = 2): Promise<Setup> => {
  const fleet = await startFleet(replicas);
  const pace = new Pace();
  const queue = new AdmissionQueue({ pool: fleet.pool, clock: fleet.clock, pace, maxWaiting });
  const enter: Setup["enter"] = (options = {}) =>
    queue.enter(requestOf(4), { signal: new AbortController().signal, ...options });
  return { fleet, queue, pace, enter };
};

/** Ends the turn of a ticket that has its place, and lets the next one go as the agent does. */
const finish = async (ticket: Ticket, queue: AdmissionQueue): Promise<void> => {
  const admission = await ticket.admission;
  const lease = await admission.lease;
  admission.settle(null);
  void lease.release();
  queue.dispatch();
};

const outcomeOf = (ticket: Ticket): Promise<string> =>
  ticket.admission.then(
    ({ replica }) => `replica ${replica.index}`,
    (error: Error) => error.constructor.name,
  );

const statistics = { promptRead: 500, generated: 500, promptMs: 500, decodeMs: 500 } as Parameters<Pace["note"]>[0];

test("a turn goes at once when a replica is free, and in the order of the queue when not", async (t) => {
  const { queue, enter } = await setUp();
  const tickets = [enter(), enter(), enter()];
  t.deepEqual(
    tickets.map((ticket) => ticket.ahead()),
    [0, 0, 1],
  );
  t.is(queue.waiting, 2);
  const order: number[] = [];
  for (const [at, ticket] of tickets.entries()) void ticket.admission.then(() => order.push(at));
  for (const ticket of tickets) await finish(ticket, queue);
  t.deepEqual(order, [0, 1, 2]);
  t.is(queue.waiting, 0);
});

test("the bound counts those who wait: one more is refused, and is not in the queue", async (t) => {
  const { queue, enter } = await setUp(1, 2);
  const first = enter();
  enter();
  enter();
  t.throws(() => enter(), { instanceOf: QueueFull, message: /all 2 places/ });
  t.is(queue.waiting, 2);
  await finish(first, queue);
  t.notThrows(() => enter());
});

test("with a bound of 0 nobody waits, and who need not wait is served", async (t) => {
  const { enter } = await setUp(1, 0);
  t.is(await outcomeOf(enter()), "replica 0");
  t.throws(() => enter(), { instanceOf: QueueFull });
});

test("a turn that lost its replica goes before all others, whatever the bound", async (t) => {
  const { queue, enter } = await setUp(1, 1);
  const running = enter();
  const waiting = enter();
  const again = enter({ again: true });
  t.is(waiting.ahead(), 1);
  await finish(running, queue);
  t.is(await outcomeOf(again), "replica 0");
  t.is(queue.waiting, 1);
});

test("who is aborted leaves, and the others move up", async (t) => {
  const { queue, enter } = await setUp();
  enter();
  const abort = new AbortController();
  const leaving = enter({ signal: abort.signal });
  const staying = enter();
  abort.abort(new RangeError("gone"));
  t.is(await outcomeOf(leaving), "RangeError");
  t.is(staying.ahead(), 0);
  t.is(queue.waiting, 1);
  t.is(await outcomeOf(enter({ signal: abort.signal })), "RangeError", "aborted before it came");
});

test("with no replica alive a turn is refused at once, and those who wait are told at once", async (t) => {
  const { fleet, queue, enter } = await setUp();
  enter();
  const waiting = enter();
  await fleet.process(0).exit({ code: null, signal: "SIGKILL" });
  await promiseJobs();
  queue.dispatch();
  t.is(await outcomeOf(waiting), "NoReplica");
  t.throws(() => enter(), { instanceOf: NoReplica });
});

test("who waits when one of two replicas dies is placed on the other", async (t) => {
  const { fleet, queue, enter } = await setUp(2);
  const tickets = [enter(), enter()];
  const places = await Promise.all(tickets.map((ticket) => ticket.admission));
  const waiting = enter();
  await fleet.process(0).exit({ code: null, signal: "SIGKILL" });
  await promiseJobs();
  const alive = tickets[places.findIndex(({ replica }) => replica.index === 1)];
  if (alive === undefined) throw new Error("no turn is on replica 1");
  await finish(alive, queue);
  t.is(await outcomeOf(waiting), "replica 1");
});

test("a deadline that has passed, or that the queue would miss, is refused at once; one that passes while waiting ends the wait", async (t) => {
  const { fleet, pace, enter, queue } = await setUp(1, 8);
  const now = fleet.clock.now();
  t.throws(() => enter({ dueMs: now - 1 }), { instanceOf: DeadlineExceeded });
  enter();
  const waiting = enter({ dueMs: now + 100 });
  await fleet.clock.advance(100);
  t.is(await outcomeOf(waiting), "DeadlineExceeded");
  t.is(queue.waiting, 0);
  pace.note(statistics);
  for (let at = 0; at < 4; at++) enter();
  const wait = queue.waitMs() ?? 0;
  t.true(wait > 0);
  t.throws(() => enter({ dueMs: fleet.clock.now() + wait / 2 }), { instanceOf: DeadlineExceeded });
  t.notThrows(() => enter({ dueMs: fleet.clock.now() + wait * 2 }));
});

test("retry-after comes from what turns here took: nothing before the first, within 1 and 60 s after", async (t) => {
  const { queue, pace, enter } = await setUp(1, 100);
  t.is(queue.retryAfterMs(), undefined);
  pace.note(statistics);
  t.is(pace.tokensPerSecond, 1000);
  enter();
  t.is(queue.retryAfterMs(), 1_000);
  for (let at = 0; at < 90; at++) enter();
  // requestOf(4) asks for a bounded answer: 90 turns x (4 prompt tokens + what they may make) at 1,000 tokens/s.
  const perTurn = pace.expectedTokens(4, requestOf(4).maxTokens);
  t.is(queue.retryAfterMs(), Math.min(60_000, Math.max(1_000, 90 * perTurn)));
});

test("a turn that may not wait takes any slot that is free before it is refused", async (t) => {
  const fleet = await startFleet(2);
  const queue = new AdmissionQueue({ pool: fleet.pool, clock: fleet.clock, pace: new Pace(), maxWaiting: 0 });
  const long = { ...requestOf(4), prompt: Int32Array.from({ length: 8192 }, (_, at) => at) };
  const enter = () => queue.enter(long, { signal: new AbortController().signal });
  const first = await enter().admission;
  const lease = await first.lease;
  first.settle([]);
  void lease.release();
  const holder = await enter().admission;
  t.is(holder.replica.index, first.replica.index, "where the prompt is");
  const other = await enter().admission;
  t.not(other.replica.index, holder.replica.index);
  t.throws(enter, { instanceOf: QueueFull });
});
