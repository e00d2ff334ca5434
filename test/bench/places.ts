/**
 * The places that are measured: the native decoder in a driver of its own, and an agent with its edge as `npm start` starts them, one
 * replica each so that slots mean something. Knows nothing of figures.
 */
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { type BenchChildren, within } from "../../gpu-agent/src/bench/children.ts";
import {
  DECODER_LOAD_COMMAND,
  type Driver,
  HTTP_LOAD_COMMAND,
  START_TIMEOUT_MS,
  startDriver,
} from "../../gpu-agent/src/bench/drivers.ts";
import type { Target } from "../../gpu-agent/src/bench/load.ts";
import { LOCAL_KEY_VARIABLE } from "../../gpu-agent/src/config/secrets.ts";

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

export const BUILT_IN_MODEL_PATH = here("../../gpu-agent/models/tiny-atlas-3m-q8_0.gguf");

const LOCAL_KEY_BYTES = 24;

const readySchema = z.object({
  edge: z.string(),
  agent: z.string(),
  key: z.string(),
  model: z.string(),
  pids: z.object({ edge: z.array(z.number()).min(1), agent: z.number(), replicas: z.array(z.number()).min(1) }),
});

/** A process that was started, by what it is. */
export interface NamedProcess {
  readonly name: string;
  readonly pid: number;
}

/** An edge, the agent behind it and its replica. */
export interface Stack {
  readonly edge: Target;
  readonly agent: Target;
  readonly processes: readonly NamedProcess[];
}

/** Starts the bare decoder of a replica with so many slots; it ends with the other children. */
export const startNativeDriver = (children: BenchChildren, slots: number): Promise<Driver> =>
  startDriver(children, [DECODER_LOAD_COMMAND, "--model", BUILT_IN_MODEL_PATH, "--slots", String(slots)]);

/** Starts the client; it ends with the other children. */
export const startClient = (children: BenchChildren): Promise<Driver> => startDriver(children, [HTTP_LOAD_COMMAND]);

/** The starter's stderr without what the edge logs, a JSON line a request. */
const passOnStderr = (stderr: Readable): void => {
  createInterface({ input: stderr }).on("line", (line) => {
    if (!line.startsWith("{")) process.stderr.write(`${line}\n`);
  });
};

/**
 * Starts agent and edge with one replica of so many slots; they end with the other children. With a folder for profiles each of their Node
 * processes leaves a .cpuprofile there, and is slower for it.
 */
export const startStack = async (
  children: BenchChildren,
  slots: number,
  profileDirectory: string | undefined,
): Promise<Stack> => {
  const localKey = randomBytes(LOCAL_KEY_BYTES).toString("base64url");
  const words = ["--json", "--port", "0", "--agent-port", "0", "--replicas", "1", "--slots", String(slots)];
  const { child, died } = children.start(
    () =>
      spawn(process.execPath, [here("../../edge/local/start.ts"), ...words], {
        stdio: ["ignore", "pipe", "pipe"],
        env: {
          ...process.env,
          [LOCAL_KEY_VARIABLE]: localKey,
          ...(profileDirectory === undefined
            ? {}
            : { NODE_OPTIONS: `--cpu-prof --cpu-prof-dir=${JSON.stringify(profileDirectory)}` }),
        },
      }),
    (starter) => starter.kill("SIGTERM"),
  );
  passOnStderr(child.stderr);
  const line = once(createInterface({ input: child.stdout }), "line");
  const [text] = (await within(Promise.race([line, died]), START_TIMEOUT_MS, "starting agent and edge")) as [string];
  const { edge, agent, key, model, pids } = readySchema.parse(JSON.parse(text));
  return {
    edge: { url: edge, key, model },
    agent: { url: agent, key: localKey, model },
    processes: [
      { name: "edge", pid: pids.edge[0] as number },
      { name: "agent", pid: pids.agent },
      { name: "host", pid: pids.replicas[0] as number },
    ],
  };
};
