/**
 * Every fault at every point of two turns on one replica, complete, and a line cut at every byte. After each the rest comes to its end, the
 * replica heals where it must, and a successor is served.
 */
import test from "ava";
import { variants } from "../helpers/schedule/engine-model.ts";
import { enumerate } from "../helpers/schedule/enumerate.ts";
import { type FaultKind, faultKinds } from "../helpers/schedule/faults.ts";
import { addStrikes, missingFaults, passes, strikesLine, withoutStacks } from "../helpers/schedule/report.ts";
import type { Scope } from "../helpers/schedule/scope.ts";

const MAX_SCHEDULES = 100_000;
/** Bytes of the longest line of these scopes, at least; a cut is taken modulo the line's length. */
const LONGEST_LINE_BYTES = 90;

const faultScope = (variant: Scope["variant"], fault: FaultKind, callers: number, cutAt = 40): Scope => ({
  subject: "A",
  variant,
  replicas: 1,
  callers,
  shape: variant === "batched" && callers > 1 ? "small" : "full",
  endings: false,
  timers: false,
  armed: false,
  callersOnly: false,
  faults: [fault],
  cutAt,
});

for (const variant of variants) {
  test.serial(
    `every fault at every point of two turns leaves all told and the next one served, ${variant}`,
    async (t) => {
      const struck = new Map<string, number>();
      let schedules = 0;
      for (const fault of faultKinds) {
        for (const callers of variant === "batched" ? [1, 2] : [2]) {
          const scope = faultScope(variant, fault, callers);
          const found = await withoutStacks(() => enumerate(scope, { merge: true, maxSchedules: MAX_SCHEDULES }));
          await passes(t, found.failure);
          t.true(found.complete, fault);
          addStrikes(struck, found.struck);
          schedules += found.schedules;
        }
      }
      t.log(`complete: ${schedules} schedules; ${strikesLine(struck)}`);
      t.deepEqual(missingFaults(struck), []);
    },
  );

  test.serial(`a line cut at any byte is the same line, ${variant}`, async (t) => {
    let cuts = 0;
    for (let cutAt = 0; cutAt < LONGEST_LINE_BYTES; cutAt++) {
      const scope = faultScope(variant, "cut-line", 1, cutAt);
      const found = await withoutStacks(() => enumerate(scope, { merge: true, maxSchedules: MAX_SCHEDULES }));
      if (found.failure !== undefined) await passes(t, found.failure);
      cuts += found.struck.get("cut-line") ?? 0;
    }
    t.log(`${cuts} schedules with a cut`);
    t.true(cuts > LONGEST_LINE_BYTES);
  });
}
