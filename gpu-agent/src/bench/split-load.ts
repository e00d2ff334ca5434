/** One load over several drivers that work together as one place, and their samples as one. Pure. */
import type { Load, Sample } from "./load.ts";

const share = (whole: number, parts: number, at: number): number =>
  Math.floor(whole / parts) + (at < whole % parts ? 1 : 0);

/** A share for each driver: callers and turns cut evenly. Undefined where there are fewer callers than drivers: it rests. */
export const splitLoad = (load: Load, drivers: number): (Load | undefined)[] => {
  const busy = Math.min(drivers, load.callers);
  return Array.from({ length: drivers }, (_, at) =>
    at >= busy ? undefined : { ...load, callers: share(load.callers, busy, at), turns: share(load.turns, busy, at) },
  );
};

/** What they did together: it took as long as the last of them. */
export const mergeSamples = (samples: readonly Sample[]): Sample => ({
  ttftMs: samples.flatMap(({ ttftMs }) => ttftMs),
  turnMs: samples.flatMap(({ turnMs }) => turnMs),
  tpotMs: samples.flatMap(({ tpotMs }) => tpotMs),
  tokens: samples.reduce((total, { tokens }) => total + tokens, 0),
  chunks: samples.reduce((total, { chunks }) => total + chunks, 0),
  elapsedMs: Math.max(...samples.map(({ elapsedMs }) => elapsedMs)),
  driverCpuMs: samples.reduce((total, { driverCpuMs }) => total + driverCpuMs, 0),
});
