/** Runs JavaScript in a Node process of its own: for what ends, crashes or re-configures a process. */
import { spawnSync } from "node:child_process";

/** A child that takes longer hangs. */
const CHILD_TIMEOUT_MS = 60_000;

const native = new URL("../../native/index.js", import.meta.url).href;
const support = new URL("./support.ts", import.meta.url).href;
const PRELUDE = `
import * as native from ${JSON.stringify(native)};
import { endless, MODEL_PATH as path } from ${JSON.stringify(support)};
`;

export interface ChildResult {
  readonly code: number | null;
  readonly signal: string | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface ChildOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly flags?: readonly string[];
}

/** @param args a script with its arguments, or Node's own flags */
export function runNode(args: readonly string[], options: ChildOptions = {}): ChildResult {
  const { status, signal, stdout, stderr } = spawnSync(process.execPath, [...(options.flags ?? []), ...args], {
    encoding: "utf8",
    env: { ...process.env, ...options.env },
    timeout: CHILD_TIMEOUT_MS,
    killSignal: "SIGKILL",
  });
  return { code: status, signal, stdout, stderr };
}

/** The body sees `native`, `path` (of the built-in model) and `endless` (support.ts). */
export function runBody(body: string, options: ChildOptions = {}): ChildResult {
  return runNode(["--input-type=module", "-e", PRELUDE + body], options);
}
