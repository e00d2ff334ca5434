/**
 * One life of the agent under soak: started with short limits, a wire log of its own and the probe, asked and signalled, and at its end read
 * back from its log. It leads a process group of its own, so that a Ctrl-C at the soak's terminal does not reach it.
 */
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { get } from "node:http";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { z } from "zod";
import { agentEntry } from "../helpers/agent-process.ts";
import { parseScrape, type Scrape } from "../helpers/prometheus.ts";
import type { GivenUp, LoggedTurn } from "./books.ts";
import type { LifeView } from "./judge-answers.ts";
import type { Target } from "./run-client.ts";
import {
  DRAIN_S,
  HEAL_COOLDOWN_S,
  HEARTBEAT_S,
  POLL_MS,
  PROBE_LIMIT_MS,
  READY_LIMIT_MS,
  STALL_S,
} from "./soak-limits.ts";

const readySchema = z.object({ url: z.url(), pids: z.object({ agent: z.number() }) });
const replicaSchema = z.object({
  index: z.number(),
  state: z.string(),
  pid: z.number().nullable(),
  slots: z.number(),
  free_slots: z.number(),
  inflight: z.number(),
  waiting: z.number(),
  heals: z.number(),
  dropped_lines: z.number(),
});
const statusSchema = z.object({ inflight: z.number(), waiting: z.number(), replicas: z.array(replicaSchema) });
export type LifeStatus = z.infer<typeof statusSchema>;
const probeSchema = z.object({
  number: z.number(),
  heapBytes: z.number(),
  resources: z.record(z.string(), z.number()),
});
export type Probe = z.infer<typeof probeSchema>;
const poisonedSchema = z.object({ time: z.iso.datetime(), replica: z.number(), state: z.literal("poisoned") });
const turnEndedSchema = z.object({
  request: z.string(),
  turn: z.number(),
  completion_tokens: z.number(),
  generated: z.number().nullable(),
});

export interface LifeOptions {
  readonly id: string;
  readonly replicas: number;
  readonly slots: number;
  readonly edgeUrl: string;
  readonly keys: Pick<Target, "localKey" | "signing">;
  readonly spool: string;
  readonly wireLog: string;
  readonly configFile: string;
  readonly probeFile: string;
  /** `NAME=value`, in the environment of the agent and of all that it starts. */
  readonly mark: string;
}

/** Looks until it is as wanted; undefined where it is not within the limit. */
export const waitFor = async <T>(
  look: () => T | Promise<T>,
  wanted: (value: T) => boolean,
  limitMs: number,
): Promise<{ readonly came: boolean; readonly last: T }> => {
  const endMs = performance.now() + limitMs;
  for (;;) {
    const last = await look();
    const came = wanted(last);
    if (came || performance.now() > endMs) return { came, last };
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
};

export class AgentLife implements LifeView, Target {
  readonly id: string;
  readonly url: string;
  readonly pid: number;
  readonly localKey: string;
  readonly signing: Target["signing"];
  readonly exited: Promise<number | null>;
  /** Turns that its log says ended. */
  readonly logged: LoggedTurn[] = [];
  /** Replicas that it gave up. */
  readonly givenUp: GivenUp[] = [];
  /** Events of its log at the level `error`. */
  readonly errors: string[] = [];
  faulted = false;
  ending = false;
  cut = false;
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #probeFile: string;
  #probes = 0;

  private constructor(child: ChildProcessWithoutNullStreams, url: string, pid: number, options: LifeOptions) {
    this.#child = child;
    this.#probeFile = options.probeFile;
    this.id = options.id;
    this.url = url;
    this.pid = pid;
    this.localKey = options.keys.localKey;
    this.signing = options.keys.signing;
    this.exited =
      child.exitCode === null ? once(child, "exit").then(([code]) => code) : Promise.resolve(child.exitCode);
  }

  /** Starts an agent and waits for its ready line; rejects with what it said where there is none. */
  static async start(options: LifeOptions): Promise<AgentLife> {
    const { id, replicas, slots, edgeUrl, keys, spool, wireLog, configFile, probeFile, mark } = options;
    const [markName = "", markValue = ""] = mark.split("=");
    const child = spawn(
      process.execPath,
      [
        ...[agentEntry, "serve", "--port", "0", "--json", "--exit-with-stdin", "--config", configFile],
        ...["--agent-id", id, "--replicas", String(replicas), "--slots", String(slots)],
        ...[
          "--edge-url",
          edgeUrl,
          "--heartbeat-interval",
          String(HEARTBEAT_S),
          "--spool",
          spool,
          "--wire-log",
          wireLog,
        ],
        ...["--stall-timeout", String(STALL_S), "--drain-timeout", String(DRAIN_S)],
        ...["--heal-cooldown", String(HEAL_COOLDOWN_S)],
      ],
      {
        detached: true,
        stdio: ["pipe", "pipe", "pipe"],
        env: {
          ...process.env,
          NODE_OPTIONS: `--expose-gc --import=${new URL("agent-probe.ts", import.meta.url)}`,
          SOAK_PROBE_FILE: probeFile,
          [markName]: markValue,
          LOCKGATE_LOCAL_KEY: keys.localKey,
          LOCKGATE_SIGNING_KEYS: JSON.stringify({
            [keys.signing.keyId]: Buffer.from(keys.signing.secret).toString("base64url"),
          }),
        },
      },
    );
    child.stdin.on("error", () => {}); // an agent that was killed reads no more
    const stdout = createInterface({ input: child.stdout });
    const stderr = createInterface({ input: child.stderr });
    const early: string[] = [];
    const keep = (line: string) => void early.push(line);
    stderr.on("line", keep);
    const limit = setTimeout(() => child.kill("SIGKILL"), READY_LIMIT_MS);
    const first = await Promise.race([
      once(stdout, "line").then(([line]) => line as string),
      once(child, "exit").then(() => undefined),
    ]);
    clearTimeout(limit);
    if (first === undefined) throw new Error(`agent ${id} did not start: ${early.at(-1) ?? "it said nothing"}`);
    const ready = readySchema.parse(JSON.parse(first));
    const life = new AgentLife(child, ready.url, ready.pids.agent, options);
    stderr.off("line", keep);
    for (const line of early) life.#read(line);
    stderr.on("line", (line) => life.#read(line));
    return life;
  }

  /** What was not there yet when the log was cut. */
  #read(line: string): void {
    if (!line.startsWith("{")) return void this.errors.push(line);
    const entry = JSON.parse(line) as { readonly event?: unknown; readonly level?: unknown };
    if (entry.level === "error" && entry.event !== "reload_failed") this.errors.push(line);
    const poisoned = entry.event === "replica_state" ? poisonedSchema.safeParse(entry) : undefined;
    if (poisoned?.success) this.givenUp.push({ replica: poisoned.data.replica, atMs: Date.parse(poisoned.data.time) });
    if (entry.event !== "turn_ended") return;
    const { request, turn, completion_tokens, generated } = turnEndedSchema.parse(entry);
    this.logged.push({ request, turn, completionTokens: completion_tokens, generated });
  }

  async status(): Promise<LifeStatus> {
    return statusSchema.parse(JSON.parse(await this.#get("/v1/status")));
  }

  async metrics(): Promise<Scrape> {
    return parseScrape(await this.#get("/metrics"));
  }

  /** Heap after a collection, and what keeps the event loop alive. Rejects where no answer comes. */
  async probe(): Promise<Probe> {
    const number = ++this.#probes;
    this.signal("SIGUSR2");
    const { came, last } = await waitFor(
      () => this.#readProbe(),
      (probe) => (probe?.number ?? 0) >= number,
      PROBE_LIMIT_MS,
    );
    if (!came || last === undefined) throw new Error(`agent ${this.id} answers no probe`);
    return last;
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name);
  }

  #readProbe(): Probe | undefined {
    try {
      return probeSchema.parse(JSON.parse(readFileSync(this.#probeFile, "utf8")));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
      throw error;
    }
  }

  /** On a connection of its own, which is closed: one that is kept would count among the agent's open files. */
  async #get(path: string): Promise<string> {
    const headers = { authorization: `Bearer ${this.localKey}` };
    const [response] = await once(get(`${this.url}${path}`, { agent: false, headers }), "response");
    return text(response);
  }
}

/** Everything at rest: nothing in flight, nobody waits, every replica ready with all its slots free. */
export const isIdle = ({ inflight, waiting, replicas }: LifeStatus): boolean =>
  inflight === 0 &&
  waiting === 0 &&
  replicas.every(
    (replica) =>
      replica.state === "ready" &&
      replica.free_slots === replica.slots &&
      replica.inflight === 0 &&
      replica.waiting === 0,
  );
