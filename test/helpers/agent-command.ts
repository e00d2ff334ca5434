/** Runs a command of the agent to its end, in an environment that holds nothing of ours but what the test gives. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { agentEntry } from "./agent-process.ts";

export interface CommandEnd {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** The environment without the agent's variables: a developer's own must not change what a test sees. */
export const plainEnvironment = (): NodeJS.ProcessEnv =>
  Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("LOCKGATE_")));

export const runAgentCommand = async (
  words: readonly string[],
  { env = {}, cwd, entry = agentEntry }: { env?: NodeJS.ProcessEnv; cwd?: string; entry?: string } = {},
): Promise<CommandEnd> => {
  const child = spawn(process.execPath, [entry, ...words], {
    env: { ...plainEnvironment(), ...env },
    stdio: ["ignore", "pipe", "pipe"],
    ...(cwd === undefined ? {} : { cwd }),
  });
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "close")]);
  return { code: code as number | null, stdout, stderr };
};
