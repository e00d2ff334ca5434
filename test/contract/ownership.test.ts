/** The ownership contracts as tests: every scheme keeps every contract, and the faulty subjects break exactly the recorded ones. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "ava";
import { contracts } from "../../gpu-agent/src/ownership/contracts/index.ts";
import { recordedOutcome } from "../../gpu-agent/src/ownership/recorded-outcomes.ts";
import { reportedPasses, runReplay } from "../../gpu-agent/src/ownership/replay.ts";
import { type SubjectName, subjects } from "../../gpu-agent/src/ownership/subjects/index.ts";

for (const scheme of ["A", "B", "C"] as const) {
  for (const { number, title, play } of contracts) {
    test.serial(`${scheme} keeps contract ${number}: ${title}`, async (t) => {
      await t.notThrowsAsync(play(subjects[scheme]()));
    });
  }
}

for (const subject of ["original", "close-only"] as const satisfies readonly SubjectName[]) {
  test.serial(`${subject} breaks exactly the recorded contracts`, async (t) => {
    for (const { number, title, play } of contracts) {
      if (recordedOutcome(subject, number) === "fail") {
        await t.throwsAsync(play(subjects[subject]()), { any: true }, `${subject} should break ${number}: ${title}`);
      } else await t.notThrowsAsync(play(subjects[subject]()), `${subject} should keep ${number}: ${title}`);
    }
  });
}

test.serial(
  "replay writes a log per subject and a summary, prints the matrix and refuses a directory that exists",
  async (t) => {
    const directory = mkdtempSync(join(tmpdir(), "lockgate-replay-"));
    t.teardown(() => rmSync(directory, { recursive: true, force: true }));
    const output = join(directory, "out");
    let printed = "";
    let errors = "";
    const terminal = {
      writeOut: (text: string) => {
        printed += text;
      },
      writeError: (text: string) => {
        errors += text;
      },
    };
    t.is(await runReplay(output, terminal), 0);
    t.deepEqual(readdirSync(output).toSorted(), [
      "A.log",
      "B.log",
      "C.log",
      "close-only.log",
      "original.log",
      "summary.json",
    ]);
    t.regex(printed, /1-18 +9\/18 +16\/18 +18\/18 +18\/18 +18\/18/);
    const summary = JSON.parse(readFileSync(join(output, "summary.json"), "utf8"));
    t.deepEqual(summary.passes_of_18, { original: 9, "close-only": 16, A: 18, B: 18, C: 18 });
    t.is(reportedPasses(summary.outcomes, "A"), 18);
    t.true(summary.code.length > 20);
    t.true(summary.code.every(({ sha256 }: { sha256: string }) => /^[0-9a-f]{64}$/.test(sha256)));
    t.is(await runReplay(output, terminal), 64);
    t.regex(errors, /exists already; name a new one/);
  },
);
