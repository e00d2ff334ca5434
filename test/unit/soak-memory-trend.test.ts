import test from "ava";
import { growthCheck, trendCheck } from "../soak/memory-trend.ts";
import { excessOver, mostOf } from "../soak/process-facts.ts";
import { MIN_SAMPLES_PER_QUARTER } from "../soak/soak-limits.ts";

const MIB = 2 ** 20;
const samples = (count: number, bytesAt: (at: number) => number) =>
  Array.from({ length: count }, (_, at) => bytesAt(at));

test("memory that grows all the time fails, memory that swings or grew in the beginning passes", (t) => {
  t.false(
    trendCheck(
      "heap",
      samples(100, (at) => at * MIB),
      10 * MIB,
    ).ok,
  );
  t.true(
    trendCheck(
      "heap",
      samples(100, (at) => (at % 7) * 5 * MIB),
      10 * MIB,
    ).ok,
  );
  t.true(
    trendCheck(
      "heap",
      samples(100, (at) => Math.min(at, 25) * 4 * MIB),
      10 * MIB,
    ).ok,
  );
});

test("growth is allowed up to the bound, and not a byte more", (t) => {
  const step = (byBytes: number) => samples(40, (at) => (at < 20 ? 0 : byBytes));
  t.true(trendCheck("heap", step(10 * MIB), 10 * MIB).ok);
  t.false(trendCheck("heap", step(10 * MIB + 1), 10 * MIB).ok);
  t.true(growthCheck("heap", MIB, 11 * MIB, 10 * MIB).ok);
  t.false(growthCheck("heap", MIB, 11 * MIB + 1, 10 * MIB).ok);
});

test("too few samples say nothing, and the check tells so", (t) => {
  const few = 4 * MIN_SAMPLES_PER_QUARTER - 1;
  t.regex(
    trendCheck(
      "heap",
      samples(few, (at) => at * MIB),
      1,
    ).found,
    /too short to say/,
  );
  t.false(
    trendCheck(
      "heap",
      samples(few + 1, (at) => at * MIB),
      1,
    ).ok,
  );
});

test("what is held beyond the baseline is told by kind, what is less is not", (t) => {
  const baseline = mostOf([{ socket: 3, pipe: 9 }, { socket: 4 }]);
  t.deepEqual(baseline, { socket: 4, pipe: 9 });
  t.deepEqual(excessOver(baseline, { socket: 5, pipe: 8, file: 1 }), { socket: 1, file: 1 });
});
