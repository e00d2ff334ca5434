/**
 * `gpu-agent bench serve`: what the agent adds to its decoder. In one run, in rotated rounds, the same turns go to the bare decoder (the
 * native module in a process of its own, opened as a replica opens it) and, over HTTP, to a real agent: time per token and to the first one,
 * requests a second for short answers, memory.
 *
 * Deliberately absent: the edge (`npm run bench` in a checkout has it), and a verdict.
 */
import { closeSync, openSync, writeFileSync } from "node:fs";
import { exitCodes } from "../config/exit-codes.ts";
import { BenchChildren, ChildEnded } from "./children.ts";
import { measureServe, type ServeMeasurement } from "./measure-serve.ts";
import { BenchRefused } from "./serve-question.ts";
import { formatReport } from "./serve-report.ts";

/** What the shell tells of a program that Ctrl-C ended: 128 + SIGINT. sysexits.h has no code for it. */
const INTERRUPTED = 130;

export interface ServeBenchOptions extends ServeMeasurement {
  readonly jsonFile: string | undefined;
}

export interface BenchTerminal {
  readonly writeOut: (text: string) => void;
  readonly writeError: (text: string) => void;
}

/** Fails before the work is done rather than behind it. */
const assertWritable = (path: string): void => {
  try {
    closeSync(openSync(path, "a"));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new BenchRefused(exitCodes.osError, `--json ${path} cannot be written (${code})`);
  }
};

const exitCodeOf = (error: unknown): number => {
  if (error instanceof BenchRefused) return error.exitCode;
  const known = error instanceof ChildEnded && Object.values<number | null>(exitCodes).includes(error.exitCode);
  return known && error.exitCode !== exitCodes.ok ? (error.exitCode as number) : exitCodes.software;
};

/**
 * Runs the benchmark; progress to stderr, the report to stdout, and as JSON into the file that is named. Resolves with the exit code when
 * everything that was started is gone, also where a signal cut it short.
 */
export const runServeBench = async (options: ServeBenchOptions, terminal: BenchTerminal): Promise<number> => {
  const interrupted = Promise.withResolvers<"interrupted">();
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(signal, () => interrupted.resolve("interrupted"));
  }
  const progress = (text: string) => terminal.writeError(`${text}\n`);
  const children = new BenchChildren();
  try {
    if (options.jsonFile !== undefined) assertWritable(options.jsonFile);
    const working = measureServe(options, children, progress);
    const ended = await Promise.race([working, interrupted.promise]);
    if (ended === "interrupted") {
      progress("interrupted; stopping what was started");
      working.catch(() => undefined); // what it measures goes away under it
      return INTERRUPTED;
    }
    terminal.writeOut(formatReport(ended));
    if (options.jsonFile !== undefined) writeFileSync(options.jsonFile, `${JSON.stringify(ended, null, 2)}\n`);
    return exitCodes.ok;
  } catch (error) {
    progress(`gpu-agent: ${(error as Error).message}`);
    return exitCodeOf(error);
  } finally {
    await children.end();
  }
};
