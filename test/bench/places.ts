/**
 * The places that are measured: the native decoder in a driver of its own, and an agent with its edge as `npm start` starts them, one
 * replica each so that slots mean something. Knows nothing of figures.
 */
import { type ChildProcess, fork, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { LOCAL_KEY_VARIABLE } from "../../gpu-agent/src/config/secrets.ts";
import { type DriverRequest, driverAnswerSchema, type Sample, type Target } from "./load.ts";

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

export const BUILT_IN_MODEL_PATH = here("../../gpu-agent/models/tiny-atlas-3m-q8_0.gguf");

/** A start that takes longer has failed; a first one builds the addon. */
const START_TIMEOUT_MS = 180_000;
/** One measurement takes a few seconds at most. */
const SAMPLE_TIMEOUT_MS = 60_000;
/** From the request to end to SIGKILL. */
const STOP_TIMEOUT_MS = 20_000;
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

/** A process that makes load when told to. */
export interface Driver {
  readonly pid: number;
  run(request: DriverRequest): Promise<Sample>;
}

/** An edge, the agent behind it and its replica. */
export interface Stack {
  readonly edge: Target;
  readonly agent: Target;
  readonly processes: readonly NamedProcess[];
}

const within = async <T>(work: Promise<T>, ms: number, what: string): Promise<T> => {
  const over = Promise.withResolvers<never>();
  const timer = setTimeout(() => over.reject(new Error(`${what} took over ${ms / 1000} s`)), ms);
  try {
    return await Promise.race([work, over.promise]);
  } finally {
    clearTimeout(timer);
  }
};

/** Starts a child that `started` ends: by `ask`, and if it does not go in time by SIGKILL. It is there before anybody can be interrupted. */
const startChild = <C extends ChildProcess>(
  started: AsyncDisposableStack,
  start: () => C,
  ask: (child: C) => void,
): { readonly child: C; readonly died: Promise<never> } => {
  if (started.disposed) throw new Error("the bench is ending");
  const child = start();
  const exited = once(child, "exit");
  started.defer(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    ask(child);
    const timer = setTimeout(() => child.kill("SIGKILL"), STOP_TIMEOUT_MS);
    await exited;
    clearTimeout(timer);
  });
  const died = exited.then(() => Promise.reject(new Error(`${child.spawnargs.slice(1, 3).join(" ")} ended`)));
  died.catch(() => undefined); // an end that was asked for
  return { child, died };
};

/** Starts a driver script with these words on its command line; it ends with `started`. */
export const startDriver = async (
  started: AsyncDisposableStack,
  script: "http-driver.ts" | "native-driver.ts",
  args: readonly string[] = [],
): Promise<Driver> => {
  const { child, died } = startChild(
    started,
    () => fork(here(script), [...args]),
    (driver) => driver.disconnect(),
  );
  const answer = async (what: string, ms: number) => {
    const [message] = (await within(Promise.race([once(child, "message"), died]), ms, what)) as [unknown];
    return driverAnswerSchema.parse(message);
  };
  await answer(`starting ${script}`, START_TIMEOUT_MS);
  return {
    pid: child.pid as number,
    run: async (request) => {
      const answered = answer("a measurement", SAMPLE_TIMEOUT_MS);
      child.send(request);
      const got = await answered;
      if ("sample" in got) return got.sample;
      throw new Error("fault" in got ? got.fault : `${script} was ready twice`);
    },
  };
};

/** The starter's stderr without what the edge logs, a JSON line a request. */
const passOnStderr = (stderr: Readable): void => {
  createInterface({ input: stderr }).on("line", (line) => {
    if (!line.startsWith("{")) process.stderr.write(`${line}\n`);
  });
};

/**
 * Starts agent and edge with one replica of so many slots; they end with `started`. With a folder for profiles each of their Node
 * processes leaves a .cpuprofile there, and is slower for it.
 */
export const startStack = async (
  started: AsyncDisposableStack,
  slots: number,
  profileDirectory: string | undefined,
): Promise<Stack> => {
  const localKey = randomBytes(LOCAL_KEY_BYTES).toString("base64url");
  const words = ["--json", "--port", "0", "--agent-port", "0", "--replicas", "1", "--slots", String(slots)];
  const { child, died } = startChild(
    started,
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
