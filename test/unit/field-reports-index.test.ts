/**
 * Which reports from the field have a test: every number of a list has at least one test whose title begins with it; for those about the
 * edge, one that runs the real edge. It reads titles; what a test does is for its reader to judge.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import test from "ava";

/** How many reports there are. */
const REPORTS = 32;
/** Reports about the agent. */
const agentReports = [1, 2, 3, 4, 5, 6, 7, 8, 10, 24, 25, 27, 28, 29, 30, 31];
/** Reports about the edge. */
const edgeReports = [1, 2, 3, 4, 5, 6, 10, 11, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 32];
/** Reports about what is not there yet. */
const waitingReports: Readonly<Record<number, string>> = {
  9: "a model is not unloaded when it is idle",
  12: "there is no Anthropic endpoint, whose streams tell cumulative usage",
};

const root = fileURLToPath(new URL("..", import.meta.url));
/** Numbers that begin a title in this source; one that is filled in at run time is not seen. */
const numbersIn = (source: string): number[] =>
  [...source.matchAll(/["'`]field report (\d+): /g)].map(([, number]) => Number(number));
/** Whether a test in this source has the real edge before it. */
const hasEdge = (source: string): boolean =>
  /from "\.\.\/helpers\/(edge-worker|edge-before-agent|edge-with-agent|paced-agent|slow-agent)\.ts"/.test(source);

const self = "unit/field-reports-index.test.ts";
const sources = readdirSync(root, { recursive: true, encoding: "utf8" })
  .filter((path) => path.endsWith(".test.ts") && path !== self)
  .map((path) => readFileSync(join(root, path), "utf8"));
const missing = (reports: readonly number[], among: readonly string[]): number[] => {
  const found = new Set(among.flatMap(numbersIn));
  return reports.filter((number) => !found.has(number));
};

test("each report about the agent has a test with its number", (t) => {
  t.deepEqual(missing(agentReports, sources), []);
});

test("each report about the edge has a test with its number that runs the real edge", (t) => {
  t.deepEqual(missing(edgeReports, sources.filter(hasEdge)), []);
});

test("a report that has no test waits for what it is about", (t) => {
  for (const [number, reason] of Object.entries(waitingReports)) t.log(`field report ${number}: ${reason}`);
  const waiting = Object.keys(waitingReports).map(Number);
  t.deepEqual(missing(waiting, sources), waiting);
  const listed = [...agentReports, ...edgeReports, ...waiting];
  t.deepEqual(
    Array.from({ length: REPORTS }, (_, at) => at + 1).filter((number) => !listed.includes(number)),
    [],
  );
});

test("only a title that begins with its number counts", (t) => {
  t.deepEqual(numbersIn('test("field report 7: a", f);\ntest.serial(\n  `field report 12: b`,\n  f);'), [7, 12]);
  t.deepEqual(numbersIn("// field report 7: a\ntest(\"field report 7 a\"); test('about field report 8: b')"), []);
});
