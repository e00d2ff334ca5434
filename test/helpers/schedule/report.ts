/**
 * What the schedule tests print and how they fail: figures as one line, a failure as its trace. Expected errors by the hundred thousand
 * are made without stack traces, which cost half the time.
 */
import type { ExecutionContext } from "ava";
import type { Exploration } from "./enumerate.ts";
import { deathPhases, faultKinds } from "./faults.ts";
import { describe, type Failure } from "./run-schedule.ts";
import type { Sampling } from "./sample.ts";

/** Runs the work with stack traces switched off. */
export const withoutStacks = async <T>(work: () => Promise<T>): Promise<T> => {
  const before = Error.stackTraceLimit;
  Error.stackTraceLimit = 0;
  try {
    return await work();
  } finally {
    Error.stackTraceLimit = before;
  }
};

/** Fails the test with the trace of the schedule that failed, if one did. */
export const passes = async (t: ExecutionContext, failure: Failure | undefined): Promise<void> => {
  if (failure === undefined) t.pass();
  else t.fail(await describe(failure));
};

const count = (n: number): string => n.toLocaleString("en");

export const explorationLine = ({ schedules, merged, states, steps, longest, complete }: Exploration): string =>
  `${complete ? "complete" : "BOUNDED"}: ${count(schedules)} schedules to their end, ${count(merged)} into a known state, ` +
  `${count(states.size)} states, ${count(steps)} steps, longest ${longest}`;

export const samplingLine = (seed: number, { schedules, steps, longest }: Sampling): string =>
  `seed ${seed}: ${count(schedules)} schedules, ${count(steps)} chosen steps, longest ${longest}`;

/** The counts of faults, most frequent first. */
export const strikesLine = (struck: ReadonlyMap<string, number>): string =>
  [...struck]
    .sort((a, b) => b[1] - a[1])
    .map(([name, times]) => `${name} ${count(times)}`)
    .join(", ");

/** Adds counts to counts. */
export const addStrikes = (to: Map<string, number>, struck: ReadonlyMap<string, number>): void => {
  for (const [name, times] of struck) to.set(name, (to.get(name) ?? 0) + times);
};

/** Faults, and phases of a turn in which an engine dies, that never struck. */
export const missingFaults = (struck: ReadonlyMap<string, number>): readonly string[] => {
  const deaths = deathPhases.map((phase) => `exit ${phase}`);
  return [...faultKinds.filter((kind) => kind !== "exit"), ...deaths].filter((name) => !struck.has(name));
};

/** The seed of a sampled run: a fresh one, or that of a run to repeat. */
export const sampleSeed = (): number => {
  const text = process.env.LOCKGATE_SCHEDULE_SEED;
  if (text === undefined) return Math.floor(Math.random() * 2 ** 31);
  if (!/^\d{1,10}$/.test(text)) throw new Error(`LOCKGATE_SCHEDULE_SEED is a number, not '${text}'`);
  return Number(text);
};
