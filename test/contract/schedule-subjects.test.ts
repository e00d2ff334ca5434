/**
 * The harness bites: both faulty subjects fail in it, with the shortest schedule that shows the fault, printed for a person. The repairs
 * pass the scopes in which the subjects fail.
 */

import test from "ava";
import type { SubjectName } from "../../gpu-agent/src/ownership/subjects/index.ts";
import { enumerate } from "../helpers/schedule/enumerate.ts";
import { explorationLine, passes, withoutStacks } from "../helpers/schedule/report.ts";
import { describe, replay } from "../helpers/schedule/run-schedule.ts";
import type { Scope } from "../helpers/schedule/scope.ts";
import { shortestFailure } from "../helpers/schedule/shortest-failure.ts";

/** Longest schedule that is looked for. */
const MAX_STEPS = 12;
const MAX_SCHEDULES = 100_000;

/** A hand-over is an event here: the one that releases goes on only when the scheduler lets it, as a late finalizer does. */
const armed = (subject: SubjectName, options: Partial<Scope>): Scope => ({
  subject,
  variant: "untagged",
  replicas: 1,
  callers: 2,
  shape: "bare",
  endings: false,
  timers: false,
  armed: true,
  callersOnly: true,
  faults: [],
  cutAt: 0,
  ...options,
});

interface Expected {
  readonly title: string;
  readonly scope: Scope;
  readonly rule: RegExp;
}

const expected: readonly Expected[] = [
  {
    title: "original hands the pipe over before DONE was read",
    scope: armed("original", { callersOnly: false }),
    rule: /wrote GEN while turn \d+ had no DONE/,
  },
  {
    title: "original lets a successor end with no token of its own",
    scope: armed("original", {}),
    rule: /ended as if it were complete, with 0 of 1 tokens/,
  },
  {
    title: "close-only bills a turn with its successor's statistics",
    scope: armed("close-only", {}),
    rule: /has the statistics of a turn/,
  },
  {
    title: "close-only loses the statistics of a turn when another is sent to the other replica",
    scope: armed("close-only", { replicas: 2, armed: false }),
    rule: /ended without its statistics/,
  },
];

for (const { title, scope, rule } of expected) {
  test.serial(`${title}: the shortest schedule is found and can be run again`, async (t) => {
    const failure = await withoutStacks(() => shortestFailure(scope, MAX_STEPS, rule));
    if (failure === undefined) return t.fail("no schedule shows it");
    t.regex(failure.rule, rule);
    t.log(await describe(failure));
    const again = await replay(failure.path);
    t.is(again.rule, failure.rule);
  });
}

for (const subject of ["A", "B", "C"] as const) {
  test.serial(`${subject} keeps every rule in the scope where the subjects fail`, async (t) => {
    for (const variant of ["untagged", "tagged"] as const) {
      const scope = armed(subject, { variant, callersOnly: false, endings: true });
      const found = await withoutStacks(() => enumerate(scope, { merge: true, maxSchedules: MAX_SCHEDULES }));
      t.log(`${variant} ${explorationLine(found)}`);
      await passes(t, found.failure);
      t.true(found.complete);
    }
  });
}
