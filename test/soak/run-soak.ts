/**
 * The soak: lives of an agent under random clients and faults, ended in every way; then one long life in which its holdings are watched; then
 * the closing checks. Everything random comes from the seed. It judges nothing by itself (at-rest.ts, books.ts, judge-answers.ts do).
 */
import { randomBytes, randomUUID } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ScriptedEdge, startScriptedEdge } from "../helpers/scripted-edge.ts";
import { seededRandom } from "../helpers/seeded-random.ts";
import { AgentLife, waitFor } from "./agent-life.ts";
import { comeToRest, type Holdings, restChecks, takeBaseline } from "./at-rest.ts";
import { balanceBooks, type LifeBooks } from "./books.ts";
import { type Check, countCheck, noneCheck } from "./check.ts";
import { oneOfEachKind } from "./client-plans.ts";
import { configTexts, makeFaults } from "./faults.ts";
import { type Extent, runInTurn, Sightings, startLoad } from "./load.ts";
import { trendCheck } from "./memory-trend.ts";
import { markedProcesses, residentBytes, signalTo } from "./process-facts.ts";
import {
  AGENT_TREND_ALLOWANCE_BYTES,
  EXIT_LIMIT_MS,
  HEAP_ALLOWANCE_BYTES,
  IDLE_LIMIT_MS,
  PROGRESS_MS,
  SAMPLE_MS,
} from "./soak-limits.ts";
import { readWireTurns } from "./wire-turns.ts";

export interface SoakOptions {
  readonly seed: number;
  readonly replicas: number;
  readonly slots: number;
  /** How long each short life is, in order. */
  readonly shortLives: readonly Extent[];
  /** Clients of the long life before its baseline is taken. */
  readonly warmUpClients: number;
  /** The load of the long life, behind its warm-up. */
  readonly longLife: Extent;
  /** Ends the load early; the closing checks come all the same. */
  readonly signal: AbortSignal;
  readonly onProgress: (text: string) => void;
}

export interface SoakReport {
  readonly seed: number;
  readonly interrupted: boolean;
  readonly seconds: number;
  readonly checks: readonly Check[];
  readonly figures: Readonly<Record<string, number>>;
  readonly clients: Readonly<Record<string, number>>;
  readonly outcomes: Readonly<Record<string, number>>;
  readonly faults: Readonly<Record<string, number>>;
  readonly samples: readonly Sample[];
  readonly baseline: Holdings;
  readonly atTheEnd: Holdings;
}

interface Sample {
  readonly atS: number;
  readonly heapBytes: number;
  readonly agentBytes: number;
}

/** How a short life ends: killed, asked once, asked twice (at once). */
const ends = ["kill", "drain", "at once"] as const;

/** One number out of several, so that each part of the soak has a random of its own. */
const mix = (...parts: readonly number[]): number =>
  parts.reduce((state, part) => Math.imul(state ^ part, 0x9e3779b1) ^ (state >>> 15), 0x85ebca6b) >>> 0;

const MARK_NAME = "SOAK_RUN";
const byName = (counts: ReadonlyMap<string, number>): Record<string, number> =>
  Object.fromEntries([...counts].sort(([a], [b]) => (a < b ? -1 : 1)));

class Soak {
  readonly #options: SoakOptions;
  readonly #root = mkdtempSync(join(tmpdir(), "lockgate-soak-"));
  readonly #mark = `${MARK_NAME}=${randomUUID()}`;
  readonly #keys = {
    localKey: randomBytes(24).toString("base64url"),
    signing: { keyId: "soak", secret: new Uint8Array(randomBytes(32)) },
  };
  readonly #edge: ScriptedEdge;
  readonly #sightings = new Sightings();
  readonly #faults = new Map<string, number>();
  readonly #books: LifeBooks[] = [];
  readonly #samples: Sample[] = [];
  readonly #endProblems: string[] = [];
  readonly #loggedErrors: string[] = [];
  readonly #startedMs = performance.now();
  #lives = 0;
  #life: AgentLife | undefined;

  constructor(options: SoakOptions, edge: ScriptedEdge) {
    this.#options = options;
    this.#edge = edge;
    edge.trust(this.#keys.signing);
  }

  async run(): Promise<SoakReport> {
    const { onProgress, signal, shortLives } = this.#options;
    const progress = setInterval(() => onProgress(this.#now()), PROGRESS_MS);
    try {
      for (const [at, extent] of shortLives.entries()) {
        if (!signal.aborted) await this.#shortLife(extent, ends[at % ends.length] ?? "kill");
      }
      return await this.#longLife();
    } finally {
      clearInterval(progress);
    }
  }

  /** Ends whatever still runs. Idempotent. */
  async stop(): Promise<void> {
    for (const pid of markedProcesses(this.#mark)) signalTo(pid, "SIGKILL");
    await this.#edge.stop();
    rmSync(this.#root, { recursive: true, force: true });
  }

  /** A line for a person. */
  #now(): string {
    const { ended, running, problems } = this.#sightings;
    const bytes = this.#life === undefined ? undefined : residentBytes(this.#life.pid);
    const faults = [...this.#faults.values()].reduce((sum, count) => sum + count, 0);
    const memory = bytes === undefined ? "" : `, agent ${Math.round(bytes / 2 ** 20)} MiB`;
    return (
      `life ${this.#lives}: ${ended} clients ended, ${running} under way, ${this.#edge.booked.length} turns booked, ` +
      `${faults} faults, ${problems.length} problems${memory}`
    );
  }

  async #start(): Promise<AgentLife> {
    const { replicas, slots } = this.#options;
    const id = `soak-${++this.#lives}`;
    const wireLog = join(this.#root, "wire", id);
    mkdirSync(wireLog, { recursive: true });
    const configFile = this.#configFile();
    writeFileSync(configFile, configTexts[0] ?? "");
    this.#life = await AgentLife.start({
      id,
      replicas,
      slots,
      edgeUrl: this.#edge.url,
      keys: this.#keys,
      spool: this.#spool(),
      wireLog,
      configFile,
      probeFile: join(this.#root, `${id}.probe.json`),
      mark: this.#mark,
    });
    return this.#life;
  }

  #spool(): string {
    return join(this.#root, "spool");
  }

  #configFile(): string {
    return join(this.#root, "agent.toml");
  }

  /** Clients and faults together; `whenOver` runs while the last clients are still under way. */
  async #load(life: AgentLife, extent: Extent, whenOver: () => Promise<void>): Promise<void> {
    const { seed, signal } = this.#options;
    const stopFaults = new AbortController();
    const randomOf = (client: number) => seededRandom(mix(seed, this.#lives, client + 1));
    const load = startLoad(life, extent, randomOf, this.#sightings, signal);
    const faults = makeFaults(
      {
        life,
        edge: this.#edge,
        configFile: this.#configFile(),
        mark: this.#mark,
        random: seededRandom(mix(seed, this.#lives, 0)),
        onFault: (kind) => void this.#faults.set(kind, (this.#faults.get(kind) ?? 0) + 1),
      },
      stopFaults.signal,
    );
    faults.catch(() => {}); // awaited below
    await load.over;
    stopFaults.abort();
    await faults;
    await whenOver();
    await load.ended;
  }

  async #shortLife(extent: Extent, how: (typeof ends)[number]): Promise<void> {
    const life = await this.#start();
    this.#options.onProgress(`life ${this.#lives} begins, and will end by ${how}`);
    await this.#load(life, extent, () => this.#end(life, how));
    await this.#close(life, how);
  }

  async #longLife(): Promise<SoakReport> {
    const { seed, signal, onProgress, warmUpClients, longLife } = this.#options;
    const life = await this.#start();
    onProgress(`life ${this.#lives}, the long one: warm-up`);
    const random = seededRandom(mix(seed, this.#lives, -1));
    if (!signal.aborted) await runInTurn(oneOfEachKind(random), life, this.#sightings);
    const warmUp = startLoad(
      life,
      { kind: "clients", count: warmUpClients },
      (client) => seededRandom(mix(seed, this.#lives, -2 - client)),
      this.#sightings,
      signal,
    );
    await warmUp.ended;
    await comeToRest(life);
    const baseline = await takeBaseline(life);
    onProgress("baseline taken; clients and faults");

    const stopSampling = new AbortController();
    const sampling = this.#sample(life, stopSampling.signal);
    sampling.catch(() => {}); // awaited below
    await this.#load(life, longLife, async () => stopSampling.abort());
    await sampling;

    onProgress("load is over; closing checks");
    const { checks, holdings } = await restChecks(life, baseline, this.#mark);
    const backlog = await waitFor(
      () => this.#edge.heartbeats.at(-1)?.usage_backlog ?? -1,
      (left) => left === 0,
      IDLE_LIMIT_MS,
    );
    await this.#end(life, "drain");
    await this.#close(life, "drain");
    return this.#report(baseline, holdings, checks, backlog.last);
  }

  /** Heap after a collection, and resident memory, again and again. */
  async #sample(life: AgentLife, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const { heapBytes } = await life.probe();
      const agentBytes = residentBytes(life.pid);
      this.#samples.push({ atS: Math.round((performance.now() - this.#startedMs) / 1000), heapBytes, agentBytes });
      await new Promise((resolve) => setTimeout(resolve, SAMPLE_MS));
    }
  }

  /** Ends a life; resolves when its process is gone. */
  async #end(life: AgentLife, how: (typeof ends)[number]): Promise<void> {
    if (how !== "drain") life.cut = true;
    life.ending = true;
    life.signal(how === "kill" ? "SIGKILL" : "SIGTERM");
    if (how === "at once") {
      life.givenUp.push({ replica: null, atMs: Date.now() });
      life.signal("SIGINT"); // two of one kind may arrive as one
    }
    const late = Promise.withResolvers<"late">();
    const limit = setTimeout(() => late.resolve("late"), EXIT_LIMIT_MS);
    const code = await Promise.race([life.exited, late.promise]);
    clearTimeout(limit);
    if (code === "late") life.signal("SIGKILL");
    const wanted = how === "kill" ? null : 0;
    if (code !== wanted) this.#endProblems.push(`${life.id}, ended by ${how}: ${code}`);
  }

  /** Reads a life back once it is over. */
  async #close(life: AgentLife, how: (typeof ends)[number]): Promise<void> {
    const { replicas, slots } = this.#options;
    const left = await waitFor(
      () => markedProcesses(this.#mark),
      (pids) => pids.length === 0,
      EXIT_LIMIT_MS,
    );
    if (!left.came) this.#endProblems.push(`${life.id} left ${left.last.length} processes behind`);
    const wireLog = join(this.#root, "wire", life.id);
    const wire = await readWireTurns(wireLog);
    rmSync(wireLog, { recursive: true, force: true });
    const { id, logged, givenUp } = life;
    this.#books.push({ id, killed: how === "kill", slots: replicas * slots, wire, logged, givenUp });
    for (const error of life.errors) this.#loggedErrors.push(`${life.id}: ${error.slice(0, 300)}`);
    this.#life = undefined;
  }

  #report(baseline: Holdings, atTheEnd: Holdings, rest: readonly Check[], backlog: number): SoakReport {
    const { booked, again, refusals } = this.#edge;
    const sightings = this.#sightings;
    const { checks: books, figures } = balanceBooks({
      lives: this.#books,
      records: booked,
      again,
      seen: sightings.seen,
    });
    const of = (pickOne: (sample: Sample) => number) => this.#samples.map(pickOne);
    return {
      seed: this.#options.seed,
      interrupted: this.#options.signal.aborted,
      seconds: Math.round((performance.now() - this.#startedMs) / 1000),
      checks: [
        noneCheck("answers and refusals that may not be", sightings.problems),
        ...rest,
        trendCheck(
          "heap of the agent under load",
          of(({ heapBytes }) => heapBytes),
          HEAP_ALLOWANCE_BYTES,
        ),
        trendCheck(
          "memory of the agent under load",
          of(({ agentBytes }) => agentBytes),
          AGENT_TREND_ALLOWANCE_BYTES,
        ),
        noneCheck("ends of agents that were not clean", this.#endProblems),
        noneCheck("errors in the agents' logs", this.#loggedErrors),
        countCheck("records that wait in the spool", backlog, 0),
        countCheck("records refused for good", existsSync(join(this.#spool(), "rejected.jsonl")) ? 1 : 0, 0),
        noneCheck("messages that the edge could not verify", refusals),
        ...books,
      ],
      figures: { clients: sightings.ended, ...figures },
      clients: byName(sightings.clients),
      outcomes: byName(sightings.outcomes),
      faults: byName(this.#faults),
      samples: this.#samples,
      baseline,
      atTheEnd,
    };
  }
}

/** Runs a soak to its report. Rejects only where it could not be run; what it finds is in the report. */
export const runSoak = async (options: SoakOptions): Promise<SoakReport> => {
  const soak = new Soak(options, await startScriptedEdge());
  try {
    return await soak.run();
  } finally {
    await soak.stop();
  }
};

/** The random from which the lengths of lives are drawn. */
export const lengthsRandom = (seed: number): (() => number) => seededRandom(mix(seed, 0, 0));
