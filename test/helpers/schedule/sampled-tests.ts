/** The tests of one subject's sampled schedules, in parts, so that a hang is told from work. */

import type { TestFn } from "ava";
import type { SubjectName } from "../../../gpu-agent/src/ownership/subjects/index.ts";
import { addStrikes, missingFaults, passes, sampleSeed, samplingLine, strikesLine, withoutStacks } from "./report.ts";
import { sample } from "./sample.ts";
import { sampledScope } from "./sampled-scopes.ts";

const SCHEDULES_A_PART = 5_000;

/** Declares tests that run `schedules` sampled schedules, a multiple of a part's. */
export const declareSampledTests = (test: TestFn, subject: SubjectName, schedules: number): void => {
  const parts = schedules / SCHEDULES_A_PART;
  const struck = new Map<string, number>();
  for (let part = 1; part <= parts; part++) {
    test.serial(`${subject} keeps every rule in sampled schedules, part ${part} of ${parts}`, async (t) => {
      const seed = sampleSeed();
      const found = await withoutStacks(() => sample(SCHEDULES_A_PART, seed, sampledScope(subject)));
      t.log(samplingLine(seed, found));
      addStrikes(struck, found.struck);
      await passes(t, found.failure);
      if (found.failure === undefined) t.is(found.schedules, SCHEDULES_A_PART);
    });
  }

  test.serial(`every fault struck in the sampled schedules of ${subject}`, (t) => {
    t.log(strikesLine(struck));
    t.deepEqual(missingFaults(struck), []);
  });
};
