/**
 * Runs the GPU agent as a child: starts it, reads its ready line, ends it.
 *
 * The signing keys go into its environment, never onto its command line. Its stdin is a pipe that it watches: when this process
 * is gone, however it went, the agent ends too. Its stderr is ours, so what it says about a failure is said as it is.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { z } from "zod";
import type { StartOptions } from "./start-options.ts";
import { repositoryRoot } from "./wrangler-config.ts";

/** The agent bounds its own start (three tries of a quarter of an hour for a big model, and a build); this only catches one that hangs. */
const READY_TIMEOUT_MS = 60 * 60 * 1000;
/** How long running turns may go on after SIGTERM. */
const DRAIN_TIMEOUT_S = 5;
/** From SIGTERM to SIGKILL: the drain, and the end of the replicas. */
const STOP_TIMEOUT_MS = (DRAIN_TIMEOUT_S + 10) * 1000;

const readySchema = z.object({
  url: z.string(),
  model: z.string(),
  pids: z.object({ agent: z.number(), replicas: z.array(z.number()) }),
});

/** The agent's ready line. */
export type AgentReady = z.infer<typeof readySchema>;

export interface AgentProcess {
  /** Settles with the ready line; rejects if the line is not one, or never comes. */
  readonly ready: Promise<AgentReady>;
  /** Settles with the exit code when the agent ends, for whatever reason (a signal counts as 70). */
  readonly exited: Promise<number>;
  /** SIGTERM, then after a bounded time SIGKILL to it and its replicas. */
  stop(): Promise<void>;
  /** SIGKILL to it and its replicas. */
  kill(): void;
}

const EXIT_CODE_OF_SIGNAL = 70;

const readReadyLine = async (child: ChildProcess): Promise<AgentReady> => {
  if (child.stdout === null) throw new Error("the agent has no stdout");
  const lines = createInterface({ input: child.stdout });
  const timeout = AbortSignal.timeout(READY_TIMEOUT_MS);
  const [line] = (await once(lines, "line", { signal: timeout })) as [string];
  const parsed = readySchema.safeParse(JSON.parse(line));
  if (!parsed.success) throw new Error("the agent's ready line does not have the agreed shape");
  return parsed.data;
};

/** What one agent of a run is told. */
export interface AgentPlan {
  readonly options: StartOptions;
  /** What the edge calls it. */
  readonly name: string;
  readonly port: number;
  /** JSON text of its LOCKGATE_SIGNING_KEYS. */
  readonly signingKeys: string;
  /** Where its heartbeats and usage records go. */
  readonly edgeUrl: string;
  readonly spoolDirectory: string;
}

/** Starts an agent. */
export const startAgent = ({ options, name, port, signingKeys, edgeUrl, spoolDirectory }: AgentPlan): AgentProcess => {
  const words = ["serve", "--json", "--exit-with-stdin", "--log-level", "warn", "--host", "127.0.0.1"];
  words.push("--port", String(port), "--drain-timeout", String(DRAIN_TIMEOUT_S));
  words.push("--agent-id", name, "--edge-url", edgeUrl, "--spool", spoolDirectory);
  words.push("--replicas", String(options.replicas), "--slots", String(options.slots));
  if (options.modelPath !== undefined) words.push("--model", options.modelPath);
  // Each its own folder: the files of two agents have the same names.
  if (options.wireLogDirectory !== undefined)
    words.push("--wire-log", options.agents === 1 ? options.wireLogDirectory : join(options.wireLogDirectory, name));
  const child = spawn(process.execPath, [`${repositoryRoot}gpu-agent/bin/gpu-agent.js`, ...words], {
    stdio: ["pipe", "pipe", "inherit"],
    // A process group of its own: a terminal's Ctrl-C is for this process, which ends the agent in order.
    detached: true,
    env: { ...process.env, LOCKGATE_SIGNING_KEYS: signingKeys },
  });
  const exited = once(child, "exit").then(([code]) => (typeof code === "number" ? code : EXIT_CODE_OF_SIGNAL));
  const ready = readReadyLine(child);
  // An agent that dies shows in `exited`; nobody waits for both.
  ready.catch(() => undefined);

  const kill = (): void => {
    if (child.pid === undefined) return;
    try {
      process.kill(-child.pid, "SIGKILL");
    } catch {
      // The whole group is gone already.
    }
  };
  return {
    ready,
    exited,
    kill,
    async stop() {
      child.kill("SIGTERM");
      const timer = setTimeout(kill, STOP_TIMEOUT_MS);
      await exited;
      clearTimeout(timer);
    },
  };
};
