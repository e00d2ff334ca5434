/**
 * `gpu-agent replay`: every contract against every subject, without model or GPU. Writes a log per subject and a summary with the SHA-256
 * of the code that ran, prints the matrix, and says whether it is the recorded one.
 */
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { exitCodes } from "../config/exit-codes.ts";
import { contracts } from "./contracts/index.ts";
import { REPORTED_CONTRACTS, recordedOutcome } from "./recorded-outcomes.ts";
import { type SubjectName, subjectNames, subjects } from "./subjects/index.ts";

export interface ReplayOutcome {
  readonly contract: number;
  readonly title: string;
  readonly subject: SubjectName;
  readonly outcome: "pass" | "fail";
  readonly recorded: "pass" | "fail";
  /** Why it failed; null for a pass. */
  readonly reason: string | null;
}

/** Runs all of them, one after the other. */
export const replayAll = async (
  onOutcome: (outcome: ReplayOutcome) => void = () => {},
): Promise<readonly ReplayOutcome[]> => {
  const outcomes: ReplayOutcome[] = [];
  for (const subject of subjectNames) {
    for (const { number, title, play } of contracts) {
      let reason: string | null = null;
      try {
        await play(subjects[subject]());
      } catch (error) {
        reason = error instanceof Error ? error.message : String(error);
      }
      const outcome: ReplayOutcome = {
        contract: number,
        title,
        subject,
        outcome: reason === null ? "pass" : "fail",
        recorded: recordedOutcome(subject, number),
        reason,
      };
      outcomes.push(outcome);
      onOutcome(outcome);
    }
  }
  return outcomes;
};

/** A subject's passes among contracts 1-18. */
export const reportedPasses = (outcomes: readonly ReplayOutcome[], subject: SubjectName): number =>
  outcomes.filter(
    ({ subject: of, contract, outcome }) => of === subject && contract <= REPORTED_CONTRACTS && outcome === "pass",
  ).length;

/** The matrix as text, a row a contract. */
export const formatMatrix = (outcomes: readonly ReplayOutcome[]): string => {
  const width = Math.max(...subjectNames.map((name) => name.length)) + 2;
  const row = (head: string, cells: readonly string[], tail: string) =>
    `${head.padStart(4)}  ${cells.map((cell) => cell.padEnd(width)).join("")}${tail}`.trimEnd();
  const rows = contracts.map(({ number, title }) =>
    row(
      String(number),
      subjectNames.map((name) => {
        const found = outcomes.find(({ contract, subject }) => contract === number && subject === name);
        return found === undefined ? "-" : `${found.outcome}${found.outcome === found.recorded ? "" : "!"}`;
      }),
      title,
    ),
  );
  const sums = subjectNames.map((name) => `${reportedPasses(outcomes, name)}/${REPORTED_CONTRACTS}`);
  return [row("#", subjectNames, "contract"), ...rows, row("1-18", sums, "")].join("\n");
};

/** Path and SHA-256 of every file of the code that is running. */
const hashRunningCode = (): { path: string; sha256: string }[] => {
  const here = dirname(fileURLToPath(import.meta.url));
  const root = basename(here) === "ownership" ? dirname(here) : here;
  return readdirSync(root, { recursive: true, encoding: "utf8" })
    .map((name) => join(root, name))
    .filter((path) => statSync(path).isFile() && /\.(ts|js)$/.test(path))
    .toSorted()
    .map((path) => ({
      path: relative(root, path),
      sha256: createHash("sha256").update(readFileSync(path)).digest("hex"),
    }));
};

/** Runs the replay into a directory that must not exist. Resolves with the exit code: 0 only when the matrix is the recorded one. */
export const runReplay = async (
  output: string,
  terminal: { readonly writeOut: (text: string) => void; readonly writeError: (text: string) => void },
): Promise<number> => {
  try {
    mkdirSync(output);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const why = code === "EEXIST" ? "exists already; name a new one" : `cannot be made (${code})`;
    terminal.writeError(`gpu-agent: the output directory ${output} ${why}\n`);
    return exitCodes.usage;
  }
  const logs = new Map<SubjectName, string>(subjectNames.map((name) => [name, ""]));
  const outcomes = await replayAll(({ subject, contract, title, outcome, reason }) => {
    const line = `${outcome} ${String(contract).padStart(2)} ${title}\n${reason === null ? "" : `${reason.replace(/^/gm, "     ")}\n`}`;
    logs.set(subject, `${logs.get(subject)}${line}`);
    terminal.writeError(`${subject.padEnd(10)} ${outcome} ${contract}\n`);
  });
  for (const [subject, text] of logs) writeFileSync(join(output, `${subject}.log`), text);
  const different = outcomes.filter(({ outcome, recorded }) => outcome !== recorded);
  const passes = Object.fromEntries(subjectNames.map((name) => [name, reportedPasses(outcomes, name)]));
  const summary = {
    contracts: contracts.length,
    passes_of_18: passes,
    as_recorded: different.length === 0,
    outcomes,
    code: hashRunningCode(),
  };
  writeFileSync(join(output, "summary.json"), `${JSON.stringify(summary, null, 2)}\n`);
  terminal.writeOut(`${formatMatrix(outcomes)}\n`);
  if (different.length === 0) return exitCodes.ok;
  terminal.writeError(
    `gpu-agent: not the recorded matrix: ${different.map(({ subject, contract, outcome }) => `${subject} ${contract} ${outcome}`).join(", ")}\n`,
  );
  return exitCodes.software;
};
