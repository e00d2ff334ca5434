import test from "ava";
import fc from "fast-check";
import { LOAD_TOKENS } from "../../gpu-agent/src/replicas/choose-replica.ts";
import { planDispatch, type ReplicaView, type WaitingTurn } from "../../gpu-agent/src/turn/plan-dispatch.ts";

const replica = (index: number, slots: number, running: number): ReplicaView => ({
  index,
  slots,
  running,
  free: Math.max(0, slots - running),
  lastTurn: 0,
});
/** A turn whose prompt these replicas hold; any other must read all of it. */
const turn = (promptTokens: number, ...heldBy: number[]): WaitingTurn => ({
  rereadTokens: (index) => (heldBy.includes(index) ? 0 : promptTokens),
});

test("with nobody free nobody goes, with nobody alive neither", (t) => {
  t.deepEqual(planDispatch([turn(10)], [replica(0, 1, 1)]), []);
  t.deepEqual(planDispatch([turn(10)], []), []);
});

test("the first in the queue goes to the idle replica that is cheapest", (t) => {
  t.deepEqual(planDispatch([turn(1000, 1)], [replica(0, 1, 0), replica(1, 1, 0)]), [{ waiter: 0, replica: 1 }]);
});

test("a turn waits for the busy replica that holds its long prompt, and a later one passes it", (t) => {
  const waiters = [turn(LOAD_TOKENS + 1, 1), turn(10)];
  t.deepEqual(planDispatch(waiters, [replica(0, 1, 0), replica(1, 1, 1)]), [{ waiter: 1, replica: 0 }]);
});

test("those ahead that want the same replica count: the second goes elsewhere rather than wait behind the first", (t) => {
  const long = LOAD_TOKENS + 1;
  t.deepEqual(planDispatch([turn(long, 1), turn(long, 1)], [replica(0, 1, 0), replica(1, 1, 1)]), [
    { waiter: 1, replica: 0 },
  ]);
});

test("turns spread over free slots", (t) => {
  const grants = planDispatch([turn(1), turn(1), turn(1), turn(1), turn(1)], [replica(0, 2, 0), replica(1, 2, 0)]);
  t.deepEqual(
    grants.map(({ replica: index }) => index),
    [0, 1, 0, 1],
  );
});

test("property: no slot is granted twice, order is kept per replica, and nobody waits while the replica it would choose alone is free", (t) => {
  const replicas = fc
    .array(fc.record({ slots: fc.integer({ min: 1, max: 4 }), running: fc.integer({ min: 0, max: 6 }) }), {
      minLength: 1,
      maxLength: 4,
    })
    .map((list) => list.map(({ slots, running }, index) => replica(index, slots, running)));
  const waiters = fc.array(
    fc.record({ tokens: fc.integer({ min: 1, max: 10_000 }), heldBy: fc.array(fc.integer({ min: 0, max: 3 })) }),
    { maxLength: 12 },
  );
  t.notThrows(() =>
    fc.assert(
      fc.property(waiters, replicas, (drawn, views) => {
        const grants = planDispatch(
          drawn.map(({ tokens, heldBy }) => turn(tokens, ...heldBy)),
          views,
        );
        for (const { index, free } of views) {
          const here = grants.filter((grant) => grant.replica === index);
          if (here.length > free) return false;
        }
        const order = grants.map(({ waiter }) => waiter);
        if (order.some((waiter, at) => at > 0 && waiter <= (order[at - 1] ?? -1))) return false;
        // The first in the queue sees the replicas as they are: it goes if its own choice has a slot.
        const [first] = drawn;
        if (first === undefined) return grants.length === 0;
        const cost = (view: ReplicaView) =>
          turn(first.tokens, ...first.heldBy).rereadTokens(view.index) + (LOAD_TOKENS * view.running) / view.slots;
        const best = views.toSorted(
          (a, b) => cost(a) - cost(b) || a.running / a.slots - b.running / b.slots || a.index - b.index,
        )[0];
        const wentFirst = grants.some(({ waiter }) => waiter === 0);
        return wentFirst === (best?.free ?? 0) > 0;
      }),
    ),
  );
});
