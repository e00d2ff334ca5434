/**
 * Examples as a reader meets them: the lines under "Examples:" of a --help, the shell blocks of a README. And a folder to try them in, whose
 * PATH has the agent's command.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { plainEnvironment } from "./agent-command.ts";
import { agentEntry } from "./agent-process.ts";

/** The example lines of a --help text. */
export const helpExamples = (help: string): string[] =>
  (/^Examples:\n((?: {2}.*\n?)+)/m.exec(help)?.[1] ?? "")
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");

/** Names of the commands that a --help text lists, but for `help` itself. */
export const helpCommands = (help: string): string[] =>
  [...(/^Commands:\n((?: {2}.*\n?)+)/m.exec(help)?.[1] ?? "").matchAll(/^ {2}([a-z][\w-]*)/gm)]
    .map(([, name = ""]) => name)
    .filter((name) => name !== "help");

/** The lines of a Markdown text's `sh` blocks, one list a block. */
export const markdownExamples = (markdown: string): string[][] =>
  [...markdown.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, block = ""]) =>
    block.split("\n").filter((line) => line !== ""),
  );

export interface ExampleEnd {
  readonly code: number | null;
  readonly stderr: string;
}

export interface ExampleFolder {
  readonly path: string;
  /** Runs a line with a shell, to its end. One that serves is ended by its standard input once it is ready. */
  readonly run: (line: string) => Promise<ExampleEnd>;
  readonly remove: () => void;
}

/** Lines that start a server; the others end by themselves. */
const serves = (line: string): boolean => / serve\b/.test(line);

export const makeExampleFolder = (model: string, env: NodeJS.ProcessEnv): ExampleFolder => {
  const path = mkdtempSync(join(tmpdir(), "lockgate-examples-"));
  const programs = join(path, ".bin");
  mkdirSync(programs);
  const command = join(programs, "gpu-agent");
  writeFileSync(command, `#!/bin/sh\nexec "${process.execPath}" "${agentEntry}" "$@"\n`);
  chmodSync(command, 0o755);
  copyFileSync(model, join(path, "model.gguf"));
  const PATH = [programs, dirname(process.execPath), process.env.PATH ?? ""].join(delimiter);

  const run = async (line: string): Promise<ExampleEnd> => {
    const child = spawn("sh", ["-c", line], {
      cwd: path,
      env: { ...plainEnvironment(), ...env, LOCKGATE_EXIT_WITH_STDIN: "true", PATH },
      stdio: ["pipe", "pipe", "pipe"],
    });
    const output = createInterface({ input: child.stdout });
    output.resume();
    const stderr = text(child.stderr);
    const closed = once(child, "close");
    if (serves(line)) await Promise.race([once(output, "line"), closed]);
    child.stdin.end();
    const [code] = await closed;
    return { code: code as number | null, stderr: await stderr };
  };
  return { path, run, remove: () => rmSync(path, { recursive: true, force: true }) };
};
