import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import test from "ava";
import { findUntidy, MAX_LINES, type RepoFile } from "../helpers/tidy.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));

/** All text files that belong to the repository, the new ones too. */
const repoFiles = (): RepoFile[] =>
  execFileSync("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"], { cwd: root, encoding: "utf8" })
    .split("\0")
    .filter((path) => path !== "" && existsSync(`${root}${path}`))
    .map((path) => ({ path, bytes: readFileSync(`${root}${path}`) }))
    .filter(({ bytes }) => !bytes.includes(0))
    .map(({ path, bytes }) => ({ path, text: bytes.toString("utf8") }));

test("the repository is tidy", (t) => {
  const files = repoFiles();
  t.true(files.length > 50, "the files were found");
  t.deepEqual(findUntidy(files), []);
});

const header = "/** What it does. */\n";
const pure = "/** Pure: it computes. */\n";
const file = (path: string, text: string): RepoFile => ({ path, text });
/** What is said of the first of these files. */
const said = (...files: readonly RepoFile[]): string[] =>
  findUntidy(files)
    .filter((line) => line.startsWith(`${files[0]?.path}: `))
    .map((line) => line.slice((files[0]?.path.length ?? 0) + 2));
const importing = (path: string, specifier: string, ...others: readonly RepoFile[]): string[] =>
  said(file(path, `${header}import { a } from "${specifier}";\n`), ...others);

test("a good file is tidy", (t) => {
  const other = file("gpu-agent/src/replicas/b.ts", `${header}export const a = 1;\n`);
  t.deepEqual(importing("gpu-agent/src/replicas/a.ts", "./b.ts", other), []);
  t.deepEqual(said(file("native/src/a.cpp", '#include "a.h"\n')), []);
  t.deepEqual(said(file("bin/a.js", `#!/usr/bin/env node\n${header}`)), []);
  t.deepEqual(said(file("bench/peer.py", '"""A peer."""\n')), []);
});

test("a module without a header comment is untidy, a test is not", (t) => {
  t.deepEqual(said(file("edge/src/a.ts", "export const a = 1;\n")), ["does not begin with a header comment"]);
  t.deepEqual(said(file("native/src/a.cpp", '#include "b.h"\n')), ["does not begin with a header comment"]);
  t.deepEqual(said(file("native/src/a.h", "#pragma once\n")), ["does not begin with a header comment"]);
  t.deepEqual(said(file("bench/peer.py", "import os\n")), ["does not begin with a header comment"]);
  t.deepEqual(said(file("test/unit/a.test.ts", "const a = 1;\n")), []);
});

test("a file of the most lines is tidy, one line more is not", (t) => {
  const lines = (count: number) => said(file("edge/src/a.ts", `${header}${"const a = 1;\n".repeat(count - 1)}`));
  t.deepEqual(lines(MAX_LINES), []);
  t.deepEqual(lines(MAX_LINES + 1), [`has ${MAX_LINES + 1} lines, more than ${MAX_LINES}`]);
  t.deepEqual(said(file("README.md", "text\n".repeat(900))), []);
});

test("marks of unfinished work and tests that are held back are untidy", (t) => {
  for (const mark of ["TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK"]) {
    t.deepEqual(said(file("edge/src/a.ts", `${header}// ${mark}: later\n`)), ["line 2 has a left-over mark"], mark);
  }
  for (const how of ["sk" + "ip", "on" + "ly", "to" + "do", "fail" + "ing", "serial.on" + "ly"]) {
    t.deepEqual(said(file("test/unit/a.test.ts", `test.${how}("a", () => {});\n`)), [
      "line 1 has a test that is held back",
    ]);
  }
  t.deepEqual(said(file("edge/src/a.ts", `${header}const hacksaw = xxx;\n`)), []);
});

test("paths of somebody's machine and hosts of registries are untidy, in any text file", (t) => {
  for (const path of ["/wo" + "rk/a", "/tmp/" + "exp1", "/ho" + "me/me", "/ro" + "ot/.npm"]) {
    t.deepEqual(said(file("README.md", `see ${path}\n`)), ["line 1 has a path of somebody's machine"], path);
  }
  t.deepEqual(said(file("README.md", `test/wo${"rk"}/a and https://example.com/tmp/a\n`)), []);
  t.deepEqual(said(file(".npmrc", `registry=https://registry.${"npm" + "js"}.org/\n`)), [
    "line 1 has the host of a package registry",
  ]);
});

test("a lock file with addresses is untidy, one with integrity alone is not", (t) => {
  t.deepEqual(said(file("package-lock.json", '{\n  "resolved": "https://mirror.example/a.tgz"\n}\n')), [
    "line 2 has an address to resolve",
  ]);
  t.deepEqual(
    said(file("package-lock.json", `{\n  "resolved": "edge",\n  "integrity": "sha512-/wo${"rk/"}"\n}\n`)),
    [],
  );
});

test("an import without its extension, or of a file that is not there, is untidy", (t) => {
  const other = file("edge/src/b.ts", header);
  const wrong = (specifier: string) => [`imports ${specifier}, which is no file: the extension belongs to the name`];
  for (const specifier of ["./b", "./b.js", "../b.ts"]) {
    t.deepEqual(importing("edge/src/a.ts", specifier, other), wrong(specifier));
  }
  t.deepEqual(said(file("edge/src/a.ts", `${header}const b = await im${"port"}("./c.ts");\n`)), wrong("./c.ts"));
  t.deepEqual(importing("edge/src/a.ts", "./b.ts", other), []);
});

test("each border is guarded, whether by path or by package name", (t) => {
  const native = file("native/index.js", header);
  const http = file("gpu-agent/src/http/a.ts", header);
  for (const [path, specifier] of [
    ["shared-types/src/a.ts", "@lockgate/native"],
    ["shared-types/src/a.ts", "@lockgate/gpu-agent/src/log.ts"],
    ["edge/src/a.ts", "node:fs"],
    ["edge/src/a.ts", "@lockgate/native"],
    ["edge/src/a.ts", "../../gpu-agent/src/http/a.ts"],
    ["edge/local/a.ts", "../../gpu-agent/src/http/a.ts"],
    ["gpu-agent/src/turn/a.ts", "@lockgate/native"],
    ["gpu-agent/src/turn/a.ts", "../../../native/index.js"],
    ["gpu-agent/src/replicas/a.ts", "../http/a.ts"],
    ["gpu-agent/src/prompt/a.ts", "hono"],
    ["gpu-agent/src/usage/a.ts", "node:http"],
    ["gpu-agent/src/usage/a.ts", "@hono/node-server"],
    ["native/lib/a.js", "@lockgate/shared-types"],
    ["test/integration/a.test.ts", "../../gpu-agent/src/http/a.ts"],
    ["test/integration/a.test.ts", "@lockgate/native"],
  ] as const) {
    t.deepEqual(importing(path, specifier, native, http), [`must not import ${specifier}`], `${path} ${specifier}`);
  }
});

test("what a border lets through is tidy", (t) => {
  const native = file("native/index.js", header);
  const http = file("gpu-agent/src/http/b.ts", header);
  for (const [path, specifier] of [
    ["gpu-agent/src/host/a.ts", "@lockgate/native"],
    ["gpu-agent/src/models/a.ts", "@lockgate/native"],
    ["gpu-agent/src/http/a.ts", "hono"],
    ["gpu-agent/src/http/a.ts", "./b.ts"],
    ["gpu-agent/src/auth/a.ts", "@lockgate/shared-types"],
    ["edge/src/a.ts", "hono"],
    ["edge/local/a.ts", "node:fs"],
    ["test/native/a.test.ts", "@lockgate/native"],
    ["test/integration/a.test.ts", "@lockgate/shared-types"],
  ] as const) {
    t.deepEqual(importing(path, specifier, native, http), [], `${path} ${specifier}`);
  }
  t.deepEqual(said(file("gpu-agent/src/turn/a.ts", `${header}import type { A } from "@lockgate/native";\n`)), []);
});

test("imports over several lines, of types inline, re-exports and bare ones are seen", (t) => {
  for (const text of [
    'import {\n  a,\n  type B,\n} from "@lockgate/native";\n',
    'import { type B } from "@lockgate/native";\n',
    'export * from "@lockgate/native";\n',
    'export { a } from "@lockgate/native";\n',
    'import "@lockgate/native";\n',
    'const a = await import("@lockgate/native");\n',
  ]) {
    t.deepEqual(said(file("gpu-agent/src/turn/a.ts", header + text)), ["must not import @lockgate/native"], text);
  }
  t.deepEqual(said(file("gpu-agent/src/turn/a.ts", `${header}// import "@lockgate/native" is not for us\n`)), []);
});

test("a module that says it is pure and is not is untidy, by its own words or through what it loads", (t) => {
  const shell = file("edge/src/shell.ts", `${header}export const a = Date.now();\n`);
  const between = file("edge/src/between.ts", `${header}export * from "./shell.ts";\n`);
  for (const word of [
    "Date.now()",
    "Math.random()",
    "setTimeout(a, 1)",
    "process.env",
    'fetch("a")',
    "performance.now()",
  ]) {
    t.is(said(file("edge/src/a.ts", `${pure}const a = ${word};\n`)).length, 1, word);
    t.deepEqual(said(file("edge/src/a.ts", `${header}const a = ${word};\n`)), [], word);
    t.deepEqual(said(file("edge/src/a.ts", `${pure}// not ${word}\n`)), [], word);
    t.deepEqual(said(file("edge/src/a.ts", `${pure}const a = \`write ${word}\`;\n`)), [], word);
  }
  t.deepEqual(said(file("edge/src/a.ts", `${pure}import { a } from "./between.ts";\n`), between, shell), [
    "says that it is pure, but edge/src/shell.ts uses Date.now",
  ]);
  t.deepEqual(said(file("edge/src/a.ts", `${pure}import type { A } from "./between.ts";\n`), between, shell), []);
  t.deepEqual(said(file("gpu-agent/src/a.ts", `${pure}import { a } from "node:fs";\n`)), [
    "says that it is pure, but gpu-agent/src/a.ts imports node:fs",
  ]);
  t.deepEqual(said(file("gpu-agent/src/a.ts", `${pure}import { a } from "node:crypto";\n`)), []);
});

test("modules that load each other do not hang the check", (t) => {
  const b = file("edge/src/b.ts", `${pure}import { a } from "./a.ts";\n`);
  t.deepEqual(said(file("edge/src/a.ts", `${pure}import { b } from "./b.ts";\n`), b), []);
});

test("the native module knows no protocol of the outside and nobody's customers", (t) => {
  for (const word of ["JSON", "HTTP", "SSE", "tenant"]) {
    t.deepEqual(said(file("native/src/a.h", `// takes ${word}\n`)), [
      "line 1 has a word that the native module should not know",
    ]);
  }
  t.deepEqual(said(file("native/src/a.h", "// assesses tenancy of asset\n")), []);
});
