/**
 * edge/THREATS.md names, for each threat, what stops it and which tests show it. These tests check that all of that is there; whether a test
 * shows what it should is for its reader to judge.
 */
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import test from "ava";

const root = fileURLToPath(new URL("../..", import.meta.url));

interface Threat {
  readonly threat: string;
  readonly files: readonly string[];
  readonly tests: readonly { readonly file: string; readonly title: string }[];
}

/** The rows of the table under "## Threats". */
const threatsIn = (markdown: string): Threat[] => {
  const [, section = ""] = markdown.split("\n## Threats\n");
  const [table = ""] = section.split("\n## ");
  return table
    .split("\n")
    .filter((line) => line.startsWith("| "))
    .slice(2)
    .map((line) => {
      const [threat = "", stops = "", tests = ""] = line.slice(2, -2).split(" | ");
      return {
        threat,
        files: [...stops.matchAll(/`([^`]+)`/g)].map(([, file = ""]) => file),
        tests: tests.split("<br>").map((name) => {
          const [file = "", title = ""] = name.split(" › ");
          return { file, title };
        }),
      };
    });
};

/** A string of that text in a source; the number of a report from the field may stand before it. */
const titled = (title: string): RegExp =>
  new RegExp(`(["\`])(?:field reports? [\\d ,and]+: )?${title.replaceAll(/[\\^$.*+?()[\]{}|]/g, "\\$&")}\\1`);

/** What is wrong with a row: files that are not there, tests that no file has. `read` gives a file's text. */
const faultsOf = ({ threat, files, tests }: Threat, read: (file: string) => string | undefined): string[] => [
  ...(files.length === 0 ? [`${threat}: nothing stops it`] : []),
  ...files.filter((file) => read(file) === undefined).map((file) => `${threat}: no file ${file}`),
  ...tests
    .filter(({ file, title }) => title === "" || !titled(title).test(read(file) ?? ""))
    .map(({ file, title }) => `${threat}: no test ${file} › ${title}`),
];

const readFile = (file: string): string | undefined =>
  existsSync(`${root}${file}`) ? readFileSync(`${root}${file}`, "utf8") : undefined;

test("every threat of the model names files and tests that are there", (t) => {
  const threats = threatsIn(readFile("edge/THREATS.md") ?? "");
  t.true(threats.length > 30, String(threats.length));
  t.deepEqual(
    threats.flatMap((threat) => faultsOf(threat, readFile)),
    [],
  );
});

test("a file or a title that is not there is noticed, and a row that names none", (t) => {
  const markdown = `
## Threats

| threat | what stops it | test |
| --- | --- | --- |
| a | \`here.ts\` | t.test.ts › claim |
| b | \`gone.ts\` | t.test.ts › claim |
| c | \`here.ts\` | t.test.ts › clai<br>gone.test.ts › claim |
| d | nothing | |

## Not covered

| e | f | g |
`;
  const files: Readonly<Record<string, string>> = { "here.ts": "", "t.test.ts": 'test("claim", f)' };
  const faults = threatsIn(markdown).map((threat) => faultsOf(threat, (file) => files[file]).length);
  t.deepEqual(faults, [0, 1, 2, 2]);
});
