/** The build script's own promises: what it says and how it exits when it cannot build, and that it is quick when it need not. */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import test from "ava";

const script = new URL("../../native/scripts/build.mjs", import.meta.url).pathname;
const directory = mkdtempSync(join(tmpdir(), "lockgate-build-"));
test.after.always(() => rmSync(directory, { recursive: true, force: true }));

function findProgram(name: string): string {
  const { stdout } = spawnSync("sh", ["-c", `command -v ${name}`], { encoding: "utf8" });
  return stdout.trim();
}

function build(
  args: readonly string[],
  path: string,
  env: Record<string, string> = {},
): { status: number | null; stdout: string; stderr: string } {
  const { status, stdout, stderr } = spawnSync(process.execPath, [script, ...args], {
    encoding: "utf8",
    env: { ...process.env, ...env, PATH: path },
  });
  return { status, stdout, stderr };
}

const PREREQUISITES = ["git", "cmake", "make", "g++"];

for (const missing of PREREQUISITES) {
  test(`the first missing prerequisite is named with its remedy: ${missing}`, (t) => {
    const tools = join(directory, `without-${missing}`);
    mkdirSync(tools);
    // Everything before the missing one is there, nothing after it: so the order of the checks shows too.
    for (const name of PREREQUISITES.slice(0, PREREQUISITES.indexOf(missing))) {
      symlinkSync(findProgram(name), join(tools, name));
    }
    const { status, stdout, stderr } = build([], tools);
    t.is(status, 69);
    t.is(stdout, "");
    t.is(stderr, `${missing} is missing: apt-get install -y ${missing}\n`);
  });
}

test("--if-missing with a current addon says nothing, needs nothing and starts nothing", (t) => {
  const empty = join(directory, "empty");
  mkdirSync(empty);
  // With no program on PATH any attempt to build would end with exit code 69.
  t.deepEqual(build(["--if-missing"], empty), { status: 0, stdout: "", stderr: "" });
});

test("wrong usage is exit code 64 with the usage line", (t) => {
  for (const args of [["--fast"], ["--cuda"], ["--from-source", "--cuda", "--cuda-arch", "; rm"]]) {
    const { status, stderr } = build(args, process.env.PATH ?? "");
    t.is(status, 64, args.join(" "));
    t.regex(stderr, /usage: node native/, args.join(" "));
  }
});

test("a step that fails shows its output, ends with exit code 70 and leaves the addon as it was", (t) => {
  const addon = new URL("../../native/build/lockgate.node", import.meta.url).pathname;
  const before = statSync(addon).mtimeMs;
  const { status, stdout, stderr } = build([], process.env.PATH ?? "", { CXX: findProgram("false") });
  t.is(status, 70);
  t.is(stdout, "");
  t.regex(stderr, /CXX compiler/);
  t.regex(stderr, /compiling the native addon failed/);
  t.is(statSync(addon).mtimeMs, before);
  t.deepEqual(
    readdirSync(dirname(addon)).filter((name) => name.startsWith("work-")),
    [],
    "no half-built files are left",
  );
});
