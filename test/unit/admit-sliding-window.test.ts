import test from "ava";
import fc from "fast-check";
import { MAX_SLOTS, SLOT_MS, SlidingWindow, WINDOW_MS } from "../../edge/src/admit/sliding-window.ts";

const startMs = 1_800_000_000_000;

test("what is taken counts for a minute, to the slot", (t) => {
  const window = new SlidingWindow();
  window.take(3, startMs);
  t.is(window.used(startMs + WINDOW_MS), 3);
  t.is(window.used(startMs + WINDOW_MS + SLOT_MS - 1), 3);
  t.is(window.used(startMs + WINDOW_MS + SLOT_MS), 0);
});

test("a slot lives until its newest instant is a minute old", (t) => {
  const window = new SlidingWindow();
  window.take(1, startMs);
  window.take(1, startMs + SLOT_MS - 1);
  t.is(window.used(startMs + WINDOW_MS + SLOT_MS - 1), 2);
  t.is(window.used(startMs + WINDOW_MS + SLOT_MS), 0);
});

const steps = fc.array(
  fc.record({ afterMs: fc.integer({ min: 0, max: 20_000 }), amount: fc.integer({ min: 1, max: 5 }) }),
  { maxLength: 60 },
);

test("no 60 s ever hold more than the limit, and nothing is refused that fits into 60 s and a slot", (t) => {
  t.notThrows(() =>
    fc.assert(
      fc.property(steps, fc.integer({ min: 1, max: 12 }), (list, limit) => {
        const window = new SlidingWindow();
        const taken: { atMs: number; amount: number }[] = [];
        const sum = (fromMs: number) => taken.reduce((all, { atMs, amount }) => all + (atMs > fromMs ? amount : 0), 0);
        let nowMs = startMs;
        for (const { afterMs, amount } of list) {
          nowMs += afterMs;
          if (window.waitMs(amount, limit, nowMs) === 0) {
            window.take(amount, nowMs);
            taken.push({ atMs: nowMs, amount });
            if (sum(nowMs - WINDOW_MS) > limit) return false;
          } else if (sum(nowMs - WINDOW_MS - SLOT_MS) + amount <= limit) return false;
        }
        return true;
      }),
    ),
  );
});

test("the wait that is told is enough, and a slot less is not", (t) => {
  t.notThrows(() =>
    fc.assert(
      fc.property(steps, fc.integer({ min: 1, max: 12 }), fc.integer({ min: 1, max: 15 }), (list, limit, amount) => {
        const window = new SlidingWindow();
        let nowMs = startMs;
        for (const step of list) {
          nowMs += step.afterMs;
          if (window.waitMs(step.amount, limit, nowMs) === 0) window.take(step.amount, nowMs);
        }
        const waitMs = window.waitMs(amount, limit, nowMs);
        if (amount > limit) return waitMs === undefined;
        if (waitMs === undefined) return false;
        const tooEarly = new SlidingWindow(window.snapshot());
        const inTime = new SlidingWindow(window.snapshot());
        const early = waitMs === 0 || tooEarly.waitMs(amount, limit, nowMs + waitMs - 1) !== 0;
        return early && inTime.waitMs(amount, limit, nowMs + waitMs) === 0 && waitMs <= WINDOW_MS + SLOT_MS;
      }),
    ),
  );
});

test("one take in every slot stays within the bound of slots", (t) => {
  const window = new SlidingWindow();
  for (let slot = 0; slot < 3 * MAX_SLOTS; slot += 1) window.take(1, startMs + slot * SLOT_MS);
  t.is(window.snapshot().length, MAX_SLOTS);
  t.is(window.used(startMs + (3 * MAX_SLOTS - 1) * SLOT_MS), MAX_SLOTS);
});

test("an adjusted slot falls to 0 at the lowest, and a forgotten one stays forgotten", (t) => {
  const window = new SlidingWindow();
  const slot = window.take(10, startMs);
  window.adjust(slot, -4, startMs);
  t.is(window.used(startMs), 6);
  window.adjust(slot, -100, startMs);
  t.is(window.used(startMs), 0);
  const old = window.take(5, startMs);
  window.adjust(old, 50, startMs + 2 * WINDOW_MS);
  t.is(window.used(startMs + 2 * WINDOW_MS), 0);
});

test("the reset is when the last of what was taken is forgotten", (t) => {
  const window = new SlidingWindow();
  t.is(window.resetMs(startMs), 0);
  const first = window.take(1, startMs);
  t.is(window.resetMs(startMs), WINDOW_MS + SLOT_MS);
  const second = window.take(1, startMs + 1000);
  t.is(window.resetMs(startMs + 1000), WINDOW_MS + SLOT_MS);
  window.adjust(second, -1, startMs + 1000);
  t.is(window.resetMs(startMs + 1000), WINDOW_MS + SLOT_MS - 1000);
  window.adjust(first, -1, startMs + 1000);
  t.is(window.resetMs(startMs + 1000), 0);
});

test("a clock that goes back frees nothing and adds no slot", (t) => {
  const window = new SlidingWindow();
  window.take(1, startMs);
  window.take(1, startMs - 30_000);
  t.is(window.used(startMs - 30_000), 2);
  t.is(window.used(startMs + WINDOW_MS), 2);
  t.is(window.snapshot().length, 1);
});

test("a window comes back from what was stored of it", (t) => {
  const window = new SlidingWindow();
  window.take(2, startMs);
  window.take(3, startMs + 5000);
  const again = new SlidingWindow(window.snapshot());
  for (const atMs of [5000, WINDOW_MS + SLOT_MS, WINDOW_MS + 5000, WINDOW_MS + 5000 + SLOT_MS]) {
    t.is(again.used(startMs + atMs), window.used(startMs + atMs));
  }
});
