/**
 * `npm run soak -- --minutes 30`: random clients, kills, signals and slow readers against real agents, and closing checks: nothing leaks,
 * nothing grows, the books balance. Exit code 0 only if all hold. The table goes to stdout, progress to stderr; Ctrl-C ends the load
 * early, a second one everything.
 *
 * A seed repeats what clients and faults do, not the moments at which they meet.
 */
import { writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { pickSeed } from "../helpers/seeded-random.ts";
import { intIn } from "./client-plans.ts";
import type { Extent } from "./load.ts";
import { formatReport } from "./report.ts";
import { lengthsRandom, runSoak, type SoakOptions } from "./run-soak.ts";
import { SHORT_LIFE_MS, SHORT_LIVES_SHARE, WARM_UP_CLIENTS } from "./soak-limits.ts";

const USAGE = "usage: npm run soak -- [--minutes 30] [--seed N] [--replicas 2] [--slots 2] [--json FILE]";
const exitCodes = { ok: 0, failed: 1, usage: 64, unavailable: 69, software: 70, interrupted: 130 } as const;
/** A second Ctrl-C within this is the same one, that came through npm as well. */
const SAME_KEY_MS = 1_000;
const BOUNDS = { minutes: [0.1, 24 * 60], seed: [0, 2 ** 32 - 1], replicas: [1, 8], slots: [1, 16] } as const;

const progress = (text: string): void => void process.stderr.write(`${new Date().toISOString()} ${text}\n`);

interface Words extends Pick<SoakOptions, "seed" | "replicas" | "slots"> {
  readonly minutes: number;
  readonly jsonFile: string | undefined;
}

/** Rejects with what is wrong. */
const readWords = (words: readonly string[]): Words => {
  const { values } = parseArgs({
    args: [...words],
    options: {
      minutes: { type: "string", default: "30" },
      seed: { type: "string", default: String(pickSeed()) },
      replicas: { type: "string", default: "2" },
      slots: { type: "string", default: "2" },
      json: { type: "string" },
    },
  });
  const number = (name: keyof typeof BOUNDS): number => {
    const value = Number(values[name]);
    const [low, high] = BOUNDS[name];
    const isWhole = name === "minutes" || Number.isInteger(value);
    if (!(value >= low && value <= high) || !isWhole)
      throw new Error(`--${name} must be a ${name === "minutes" ? "" : "whole "}number from ${low} to ${high}`);
    return value;
  };
  return {
    minutes: number("minutes"),
    seed: number("seed"),
    replicas: number("replicas"),
    slots: number("slots"),
    // npm runs scripts in the package's folder; a path is meant from where the person stands.
    jsonFile: values.json && resolve(process.env.INIT_CWD ?? process.cwd(), values.json),
  };
};

/** Short lives within their share of the time, and the long one with the rest. */
const planLives = (seed: number, minutes: number): Pick<SoakOptions, "shortLives" | "longLife"> => {
  const allMs = minutes * 60_000;
  const random = lengthsRandom(seed);
  const shortLives: Extent[] = [];
  let leftMs = allMs * SHORT_LIVES_SHARE;
  while (leftMs > SHORT_LIFE_MS.low) {
    const ms = Math.min(leftMs, intIn(random, SHORT_LIFE_MS.low, SHORT_LIFE_MS.high));
    shortLives.push({ kind: "time", ms });
    leftMs -= ms;
  }
  return { shortLives, longLife: { kind: "time", ms: allMs * (1 - SHORT_LIVES_SHARE) } };
};

/** Aborted by the first Ctrl-C; the second ends the process, and with it the agent, whose stdin ends. */
const watchInterrupts = (): AbortSignal => {
  const stop = new AbortController();
  let firstMs: number | undefined;
  for (const name of ["SIGINT", "SIGTERM"] as const) {
    process.on(name, () => {
      if (firstMs === undefined) progress("asked to end: no further load, closing checks (once more: at once)");
      else if (performance.now() - firstMs > SAME_KEY_MS) process.exit(exitCodes.interrupted);
      firstMs ??= performance.now();
      stop.abort();
    });
  }
  return stop.signal;
};

const main = async (): Promise<number> => {
  let words: Words;
  try {
    words = readWords(process.argv.slice(2));
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n${USAGE}\n`);
    return exitCodes.usage;
  }
  if (process.platform !== "linux") {
    process.stderr.write("the soak needs Linux: it counts open files and processes in /proc\n");
    return exitCodes.unavailable;
  }
  const { minutes, jsonFile, ...sizes } = words;
  progress(`soak of ${minutes} min, seed ${sizes.seed}, ${sizes.replicas} x ${sizes.slots} slots`);
  try {
    const report = await runSoak({
      ...sizes,
      ...planLives(sizes.seed, minutes),
      warmUpClients: WARM_UP_CLIENTS,
      signal: watchInterrupts(),
      onProgress: progress,
    });
    process.stdout.write(`${formatReport(report)}\n`);
    if (jsonFile !== undefined) writeFileSync(jsonFile, `${JSON.stringify(report, null, 2)}\n`);
    return report.checks.every(({ ok }) => ok) ? exitCodes.ok : exitCodes.failed;
  } catch (error) {
    process.stderr.write(`seed ${sizes.seed}: ${(error as Error).stack ?? error}\n`);
    return exitCodes.software;
  }
};

process.exitCode = await main();
