/** `npm start` as a test runs it: on free ports, with the one JSON line read and checked. */
import type { ChildProcess } from "node:child_process";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { type AskAdmin, adminClient } from "./admin-client.ts";
import { untilGone } from "./edge-worker-processes.ts";
import { type Started, startScript } from "./processes.ts";

const script = fileURLToPath(new URL("../../edge/local/start.ts", import.meta.url));

const readySchema = z.strictObject({
  edge: z.url(),
  agent: z.url(),
  agents: z.array(z.strictObject({ name: z.string(), url: z.url() })).min(1),
  key: z.string().min(20),
  admin: z.string(),
  model: z.string().min(1),
  pids: z.strictObject({
    edge: z.array(z.number()).length(1),
    agent: z.number(),
    agents: z.array(z.number()).min(1),
    replicas: z.array(z.number()),
    start: z.number(),
  }),
});
const credentialSchema = z.strictObject({ url: z.url(), token: z.string() });
export type Ready = z.infer<typeof readySchema>;

export interface ReadyStart extends Started {
  readonly ready: Ready;
  /** What stands on stdout so far. */
  readonly lines: readonly string[];
}

/** Starts it with these words alone. */
export const start = (...words: string[]): Started => startScript(script, words);

/** Starts it with these words more, and waits for its line. */
export const startReady = async (...words: string[]): Promise<ReadyStart> => {
  const started = start("--json", "--port", "0", "--agent-port", "0", ...words);
  const lines: string[] = [];
  started.stdout.on("line", (line) => lines.push(line));
  const ready = readySchema.parse(JSON.parse(await started.firstLine));
  return { ...started, ready, lines };
};

/** The admin API with the credential of the file that the line names, and that credential. */
export const adminOf = async ({ admin }: Ready): Promise<{ admin: AskAdmin; url: string; token: string }> => {
  const credential = credentialSchema.parse(JSON.parse(await readFile(admin, "utf8")));
  return { ...credential, admin: adminClient(credential.url, credential.token) };
};

export const allPids = ({ pids }: Ready): number[] => [...pids.edge, ...pids.agents, ...pids.replicas, pids.start];

export const untilAllGone = async (ready: Ready): Promise<boolean> =>
  (await Promise.all(allPids(ready).map(untilGone))).every(Boolean);

export const kill = (child: ChildProcess): void => void child.kill("SIGKILL");
