import test from "ava";
import fc from "fast-check";
import type { FaultKind } from "../helpers/memory-spool-files.ts";
import { liveThrough, type SpoolLife, type SpoolStep } from "../helpers/spool-model.ts";

/** What is wrong with how a life went; undefined where all is well. */
const breach = ({ promised, received }: SpoolLife): string | undefined => {
  const lost = promised.filter((number) => !received.includes(number));
  if (lost.length > 0) return `lost ${lost}`;
  const inOrder = received.every((number, at) => at === 0 || number > (received[at - 1] ?? 0));
  return inOrder ? undefined : `out of order: ${received}`;
};

const deliver = (maxRecords: number, isAcknowledged = true): SpoolStep => ({
  kind: "deliver",
  maxRecords,
  isAcknowledged,
});
const append: SpoolStep = { kind: "append" };

/** A life that touches every kind of call: several segments, syncs, deliveries with and without an answer, a clean end and a crash. */
const script: readonly SpoolStep[] = [
  append,
  append,
  { kind: "sync" },
  deliver(1),
  append,
  append,
  append,
  deliver(2, false),
  deliver(2),
  { kind: "kill" },
  append,
  deliver(5),
  append,
  append,
  append,
  append,
  { kind: "sync" },
  deliver(3),
  { kind: "close" },
  append,
  deliver(1),
];

for (const kind of ["before", "partial", "after"] as const satisfies readonly FaultKind[]) {
  test(`whichever call fails (${kind}), nothing promised is lost, nothing else is booked, and the order holds`, async (t) => {
    const { calls } = await liveThrough(script);
    t.true(calls > 60);
    for (let at = 1; at <= calls; at++) {
      const life = await liveThrough(script, [{ at, kind }]);
      t.is(breach(life), undefined, `call ${at}`);
      t.deepEqual(
        life.received.filter((number) => life.failed.includes(number)),
        [],
        `call ${at}`,
      );
    }
  });
}

test("without faults every append is promised, and a start counts exactly what it then delivers", async (t) => {
  const life = await liveThrough(script.slice(0, -1));
  t.deepEqual(life.failed, []);
  t.is(life.backlogAtEnd, life.deliveredAtEnd.length);
  t.true(life.backlogAtEnd > 0);
});

const anyStep: fc.Arbitrary<SpoolStep> = fc.oneof(
  { weight: 6, arbitrary: fc.constant(append) },
  { weight: 2, arbitrary: fc.constantFrom<SpoolStep>({ kind: "sync" }, { kind: "kill" }, { kind: "close" }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("deliver" as const),
      maxRecords: fc.integer({ min: 1, max: 5 }),
      isAcknowledged: fc.boolean(),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("power" as const),
      share: fc.double({ min: 0, max: 1, noNaN: true }),
      keepsNames: fc.boolean(),
    }),
  },
);
const anyFault: fc.Arbitrary<SpoolStep> = fc.record({
  kind: fc.constant("fault" as const),
  after: fc.nat(12),
  how: fc.constantFrom<FaultKind>("before", "partial", "after"),
});

/** fast-check prints the seed and the steps of a life that fails. */
const RUNS = 400;

test("any life of appends, deliveries, kills and losses of power keeps the promise, and counts what is left", async (t) => {
  await fc.assert(
    fc.asyncProperty(fc.array(anyStep, { maxLength: 40, size: "max" }), async (steps) => {
      const life = await liveThrough(steps);
      const { failed, backlogAtEnd, deliveredAtEnd, damagedAtEnd } = life;
      return breach(life) === undefined && failed.length === 0 && backlogAtEnd === deliveredAtEnd.length + damagedAtEnd;
    }),
    { numRuns: RUNS },
  );
  t.pass();
});

test("any such life with faults in it keeps the promise", async (t) => {
  const anything = fc.oneof({ weight: 5, arbitrary: anyStep }, { weight: 1, arbitrary: anyFault });
  await fc.assert(
    fc.asyncProperty(
      fc.array(anything, { maxLength: 40, size: "max" }),
      async (steps) => breach(await liveThrough(steps)) === undefined,
    ),
    { numRuns: RUNS },
  );
  t.pass();
});
