/**
 * Every schedule of the small scope: 2 replicas, 3 turns, each of which may end naturally, be closed, aborted or failed by its caller, meet
 * ERR or the end of the output, at every point. Depth first and complete; the counts are printed.
 */

import test from "ava";
import type { SubjectName } from "../../gpu-agent/src/ownership/subjects/index.ts";
import { type Variant, variants } from "../helpers/schedule/engine-model.ts";
import { enumerate } from "../helpers/schedule/enumerate.ts";
import { explorationLine, passes, withoutStacks } from "../helpers/schedule/report.ts";
import type { Scope } from "../helpers/schedule/scope.ts";

/** Far more schedules than a scope here has; an enumeration that meets it is not complete, and fails. */
const MAX_SCHEDULES = 200_000;

const endingsOf = (subject: SubjectName, variant: Variant, replicas: number, callers: number): Scope => ({
  subject,
  variant,
  replicas,
  callers,
  shape: "small",
  endings: true,
  timers: false,
  armed: false,
  callersOnly: false,
  faults: [],
  cutAt: 0,
});

for (const variant of variants) {
  test.serial(`A keeps every rule in all schedules of 2 replicas and 3 turns, ${variant}`, async (t) => {
    const scope = endingsOf("A", variant, 2, 3);
    const found = await withoutStacks(() => enumerate(scope, { merge: true, maxSchedules: MAX_SCHEDULES }));
    t.log(explorationLine(found));
    await passes(t, found.failure);
    t.true(found.complete);
  });
}

for (const subject of ["B", "C"] as const) {
  for (const variant of variants) {
    test.serial(`${subject} keeps every rule in all schedules of 1 replica and 2 turns, ${variant}`, async (t) => {
      const scope: Scope = { ...endingsOf(subject, variant, 1, 2), shape: "bare" };
      const found = await withoutStacks(() => enumerate(scope, { merge: true, maxSchedules: MAX_SCHEDULES }));
      t.log(explorationLine(found));
      await passes(t, found.failure);
      t.true(found.complete);
    });
  }
}

test.serial(
  "no state is hidden from the merging: every single order, run without it, reaches the same states",
  async (t) => {
    const scope: Scope = { ...endingsOf("A", "untagged", 1, 2), shape: "bare" };
    const [all, merged] = await withoutStacks(async () => [
      await enumerate(scope, { merge: false, maxSchedules: MAX_SCHEDULES }),
      await enumerate(scope, { merge: true, maxSchedules: MAX_SCHEDULES }),
    ]);
    t.log(`every order: ${explorationLine(all)}`);
    t.log(`merged: ${explorationLine(merged)}`);
    await passes(t, all.failure ?? merged.failure);
    t.true(all.complete && merged.complete);
    t.deepEqual(
      [...all.states].filter((state) => !merged.states.has(state)),
      [],
    );
    t.is(all.states.size, merged.states.size);
  },
);
