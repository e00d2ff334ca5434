import assert from "node:assert/strict";
import test from "ava";
import fc from "fast-check";
import { EngineLost, QueueFull } from "../../gpu-agent/src/replicas/errors.ts";
import { type Lease, LeaseQueue } from "../../gpu-agent/src/replicas/lease-queue.ts";
import { promiseJobs } from "../helpers/fake-engine.ts";

const never = new AbortController().signal;

/** One taker as the model sees it. */
interface Taker {
  readonly number: number;
  readonly abort: AbortController;
  lease: Lease | undefined;
  state: "waiting" | "holding" | "released" | "aborted" | "refused";
}

const operation = fc.oneof(
  { weight: 4, arbitrary: fc.constant({ do: "acquire" as const, which: 0 }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("release" as const), which: fc.nat() }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("abort" as const), which: fc.nat() }) },
);

/** Runs operations against a real queue and a list that stands for it; throws where they differ. */
const playAgainstModel = async (
  slots: number,
  maxWaiting: number,
  operations: readonly { readonly do: "acquire" | "release" | "abort"; readonly which: number }[],
): Promise<void> => {
  const queue = new LeaseQueue(slots, maxWaiting);
  const takers: Taker[] = [];
  const line: Taker[] = [];
  const inState = (state: Taker["state"]) => takers.filter((taker) => taker.state === state);
  /** The model's hand-over: the first in line holds as soon as there is a slot. */
  const expectHolder = (): Taker | undefined => (inState("holding").length < slots ? line.shift() : undefined);
  const pick = (list: readonly Taker[], which: number): Taker | undefined => list[which % Math.max(1, list.length)];

  const acquire = () => {
    const taker: Taker = { number: takers.length, abort: new AbortController(), lease: undefined, state: "waiting" };
    const full = inState("holding").length === slots && line.length === maxWaiting;
    let granted: Promise<Lease>;
    try {
      granted = queue.acquire(taker.abort.signal);
    } catch (error) {
      assert.ok(error instanceof QueueFull && full, "QueueFull at the bound and nowhere else");
      return;
    }
    assert.ok(!full, "refused at the bound");
    takers.push(taker);
    line.push(taker);
    granted.then(
      (lease) => {
        taker.lease = lease;
      },
      (error) => assert.equal(error, taker.abort.signal.reason),
    );
  };

  for (const { do: what, which } of operations) {
    if (what === "acquire") acquire();
    else if (what === "release") {
      const taker = pick(inState("holding"), which);
      if (taker === undefined) continue;
      taker.state = "released";
      void taker.lease?.release();
    } else {
      const taker = pick([...line, ...inState("holding"), ...inState("released")], which);
      if (taker === undefined) continue;
      taker.abort.abort(new Error(`taker ${taker.number} left`));
      if (taker.state === "waiting") {
        taker.state = "aborted";
        line.splice(line.indexOf(taker), 1);
      }
    }
    await promiseJobs();
    const next = expectHolder();
    if (next !== undefined) next.state = "holding";
    const holding = inState("holding");
    for (const taker of takers) {
      if (taker.state === "waiting" || taker.state === "aborted") assert.equal(taker.lease, undefined, "out of turn");
    }
    const held = holding.map(({ lease }) => lease?.slot);
    assert.ok(!held.includes(undefined), "the first in line holds");
    assert.equal(new Set(held).size, held.length, "no slot is held twice");
    assert.deepEqual([queue.held, queue.free, queue.waiting], [held.length, slots - held.length, line.length]);
  }

  for (const taker of line.splice(0)) taker.abort.abort();
  for (const taker of inState("holding")) taker.lease?.release();
  assert.deepEqual([queue.free, queue.waiting], [slots, 0], "all free in the end");
};

test("property: FIFO, never held twice, bounded, and free after any mix of releases and aborts", async (t) => {
  await t.notThrowsAsync(
    fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 4 }),
        fc.nat(5),
        fc.array(operation, { maxLength: 40 }),
        playAgainstModel,
      ),
      { numRuns: 400 },
    ),
  );
});

test("the queue takes its bound and refuses the next at once", async (t) => {
  const queue = new LeaseQueue(1, 3);
  const held = await queue.acquire(never);
  const waiting = [1, 2, 3].map(() => queue.acquire(never));
  t.is(queue.waiting, 3);
  t.throws(() => queue.acquire(never), { instanceOf: QueueFull });
  void held.release();
  t.is((await (waiting[0] as Promise<Lease>)).slot, 0);
  t.notThrows(() => void queue.acquire(never));
});

test("with no place to wait a free slot is still given", async (t) => {
  const queue = new LeaseQueue(1, 0);
  await queue.acquire(never);
  t.throws(() => queue.acquire(never), { instanceOf: QueueFull });
});

test("closing refuses those who wait and those who come, and leaves what is out to its holder", async (t) => {
  const queue = new LeaseQueue(1, 3);
  const held = await queue.acquire(never);
  const waiting = [queue.acquire(never), queue.acquire(never)];
  const first = new EngineLost("closed");
  queue.close(first);
  queue.close(new EngineLost("again"));
  for (const lease of waiting) t.is(await t.throwsAsync(lease), first);
  t.is(await t.throwsAsync(queue.acquire(never)), first);
  t.is(queue.held, 1);
  void held.release();
  t.is(queue.free, 1);
  t.is(await t.throwsAsync(queue.acquire(never)), first);
});

test("a lease that is released twice throws, and its slot is not handed out again", async (t) => {
  const queue = new LeaseQueue(1, 3);
  const held = await queue.acquire(never);
  void held.release();
  const next = await queue.acquire(never);
  t.throws(() => held.release(), { message: /released twice/ });
  t.is(queue.free, 0);
  void next.release();
  t.is(queue.free, 1);
});

test("a signal that is aborted already gets no lease and no place", async (t) => {
  const queue = new LeaseQueue(1, 3);
  const reason = new Error("left before");
  t.is(await t.throwsAsync(queue.acquire(AbortSignal.abort(reason))), reason);
  t.is(queue.free, 1);
});

test("the chooser of the one who is served picks among the free slots alone", async (t) => {
  const queue = new LeaseQueue(3, 3);
  const offered: number[][] = [];
  const chooseLast = (free: readonly number[]): number => {
    offered.push([...free].sort());
    return free.at(-1) as number;
  };
  const leases = [await queue.acquire(never, chooseLast), await queue.acquire(never), await queue.acquire(never)];
  t.deepEqual(
    leases.map(({ slot }) => slot),
    [2, 0, 1],
  );
  const waiting = queue.acquire(never, chooseLast);
  void leases[1]?.release();
  t.is((await waiting).slot, 0);
  t.deepEqual(offered, [[0, 1, 2], [0]]);
});

test("a chooser that names a slot which is not free is a mistake, not a lease", async (t) => {
  const queue = new LeaseQueue(2, 1);
  await queue.acquire(never);
  t.throws(() => queue.acquire(never, () => 0), { message: /not free/ });
  t.is(queue.held, 1);
});

test("release returns what the armed hand-over returns, after the successor was served", async (t) => {
  const order: string[] = [];
  const done = Promise.resolve();
  const queue = new LeaseQueue(1, 1, (slot) => {
    order.push(`handed ${slot}`);
    return done;
  });
  const held = await queue.acquire(never);
  const next = queue.acquire(never);
  t.is(held.release(), done);
  t.is(queue.held, 1);
  t.deepEqual(order, ["handed 0"]);
  void (await next).release();
  t.is(new LeaseQueue(1, 1).free, 1);
  t.is((await new LeaseQueue(1, 1).acquire(never)).release(), undefined);
});
