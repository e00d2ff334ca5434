/** Whether memory grows while the load stays the same: the median of the samples' last quarter against that of their second. Pure. */
import type { Check } from "./check.ts";
import { MIN_SAMPLES_PER_QUARTER } from "./soak-limits.ts";

const median = (values: readonly number[]): number => {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const [low = Number.NaN, high = Number.NaN] = [sorted[sorted.length % 2 === 0 ? middle - 1 : middle], sorted[middle]];
  return (low + high) / 2;
};

const mib = (bytes: number): string => `${(bytes / 2 ** 20).toFixed(1)} MiB`;

/** `samples` in the order in which they were taken, bytes. Too few say nothing, and the check says so. */
export const trendCheck = (name: string, samples: readonly number[], allowanceBytes: number): Check => {
  const quarter = Math.floor(samples.length / 4);
  const wanted = `grows at most ${mib(allowanceBytes)}`;
  if (quarter < MIN_SAMPLES_PER_QUARTER) {
    return { name, ok: true, wanted, found: `too short to say (${samples.length} samples)`, details: [] };
  }
  const before = median(samples.slice(quarter, 2 * quarter));
  const after = median(samples.slice(-quarter));
  const ok = after - before <= allowanceBytes;
  return { name, ok, wanted, found: `${mib(before)} to ${mib(after)}`, details: [] };
};

/** What is held at the end against the baseline, bytes. */
export const growthCheck = (name: string, beforeBytes: number, afterBytes: number, allowanceBytes: number): Check => ({
  name,
  ok: afterBytes - beforeBytes <= allowanceBytes,
  wanted: `grows at most ${mib(allowanceBytes)}`,
  found: `${mib(beforeBytes)} to ${mib(afterBytes)}`,
  details: [],
});
