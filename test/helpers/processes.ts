/** Starts a program, keeps what it prints, and ends it with the test. Nothing here knows which program it is. */
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface, type Interface } from "node:readline";
import { text } from "node:stream/consumers";

export interface Started {
  readonly child: ChildProcessWithoutNullStreams;
  readonly stdout: Interface;
  /** Everything on stderr, once the program ended. */
  readonly stderr: Promise<string>;
  /** What is on stderr so far. */
  readonly stderrSoFar: () => string;
  readonly exited: Promise<number | null>;
  /** The first line on stdout; rejects with stderr when the program ends before it. */
  readonly firstLine: Promise<string>;
}

// A test process that is told to go must not wait for what it started; those end with their stdin.
process.once("disconnect", () => process.exit(1));

/** Runs a script under this Node. stdin is a pipe, so that programs that watch it end with the test process. */
export const startScript = (
  script: string,
  words: readonly string[],
  env: NodeJS.ProcessEnv = process.env,
): Started => {
  const child = spawn(process.execPath, [script, ...words], { stdio: ["pipe", "pipe", "pipe"], env });
  let stderrSoFar = "";
  child.stderr.on("data", (chunk: Buffer) => {
    stderrSoFar += chunk.toString();
  });
  const stderr = text(child.stderr);
  const exited = once(child, "exit").then(([code]) => code as number | null);
  const stdout = createInterface({ input: child.stdout });
  const firstLine = Promise.race([
    once(stdout, "line").then(([line]) => line as string),
    exited.then(async (code) => Promise.reject(new Error(`exit ${code}: ${await stderr}`))),
  ]);
  firstLine.catch(() => {}); // a test may only care for the exit
  return { child, stdout, stderr, stderrSoFar: () => stderrSoFar, exited, firstLine };
};
