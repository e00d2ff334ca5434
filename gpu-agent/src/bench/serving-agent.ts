/**
 * The agent of `bench serve`: a process of its own with what the operator would run, on a free port of this machine. Its log goes to a file,
 * as a service's goes to a journal, and is thrown away.
 */
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { z } from "zod";
import { LOCAL_KEY_VARIABLE } from "../config/secrets.ts";
import { entryPath } from "../host/host-command.ts";
import { type BenchChildren, ChildEnded, within } from "./children.ts";
import { START_TIMEOUT_MS } from "./drivers.ts";
import type { Target } from "./load.ts";

const LOCAL_KEY_BYTES = 24;
const LOG_NAME = "agent.log";

const readySchema = z.object({
  url: z.string(),
  model: z.string(),
  pids: z.object({ agent: z.number(), replicas: z.array(z.number()) }),
});

export interface ServingAgent {
  readonly target: Target;
  readonly pids: z.infer<typeof readySchema>["pids"];
}

/** What the agent would read of the operator's own settings is left out: the benchmark measures what its flags say. */
export const withoutOurVariables = (env: Readonly<NodeJS.ProcessEnv>): NodeJS.ProcessEnv =>
  Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith("LOCKGATE_")));

/**
 * Starts `serve` with these words; it ends with the other children. Rejects with ChildEnded where it does not come up; the message is the
 * agent's own last line.
 */
export const startServingAgent = async (
  children: BenchChildren,
  words: readonly string[],
  env: Readonly<NodeJS.ProcessEnv>,
): Promise<ServingAgent> => {
  const key = randomBytes(LOCAL_KEY_BYTES).toString("base64url");
  let directory = "";
  const { child, died } = children.start(
    () => {
      directory = mkdtempSync(join(tmpdir(), "lockgate-bench-"));
      const log = openSync(join(directory, LOG_NAME), "w");
      try {
        return spawn(process.execPath, [entryPath, ...words, "--port", "0", "--json", "--exit-with-stdin"], {
          stdio: ["pipe", "pipe", log],
          env: { ...withoutOurVariables(env), [LOCAL_KEY_VARIABLE]: key },
        });
      } finally {
        closeSync(log);
      }
    },
    (agent) => agent.kill("SIGTERM"),
  );
  let lastLine = "";
  child.once("exit", () => {
    lastLine = readFileSync(join(directory, LOG_NAME), "utf8").trimEnd().split("\n").at(-1) ?? "";
    rmSync(directory, { recursive: true, force: true });
  });
  if (child.stdout === null) throw new Error("the agent's output was not made");
  const line = once(createInterface({ input: child.stdout }), "line");
  try {
    const [text] = (await within(Promise.race([line, died]), START_TIMEOUT_MS, "starting the agent")) as [string];
    const { url, model, pids } = readySchema.parse(JSON.parse(text));
    return { target: { url, key, model }, pids };
  } catch (error) {
    if (error instanceof ChildEnded) error.message = `the agent did not start: ${lastLine}`;
    throw error;
  }
};
