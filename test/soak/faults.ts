/**
 * What the soak does to a running agent, drawn from a seeded random: a replica is killed or stopped for a while, the configuration is read
 * anew, the edge refuses, lags or breaks off. One after the other with pauses; those that last go on meanwhile, one of a kind at a time.
 *
 * Whatever lasts is undone at the end, so that the agent can come to rest. Nothing here ends the agent.
 */
import { writeFileSync } from "node:fs";
import type { ScriptedEdge } from "../helpers/scripted-edge.ts";
import type { AgentLife } from "./agent-life.ts";
import { intIn, pick } from "./client-plans.ts";
import { carriesMark, signalTo } from "./process-facts.ts";
import {
  FAULT_PAUSE_MS,
  LONG_STOP_MS,
  MAX_EDGE_TROUBLE_MS,
  MAX_LOSSES_PER_REPLICA,
  QUEUE_TURNS,
  SHORT_STOP_MS,
  WRITE_STALL_S,
} from "./soak-limits.ts";

export interface FaultWorld {
  readonly life: AgentLife;
  readonly edge: ScriptedEdge;
  readonly configFile: string;
  readonly mark: string;
  readonly random: () => number;
  /** Told of each one. */
  readonly onFault: (kind: string) => void;
}

/** What SIGHUP changes live; the last one is broken and must change nothing. */
export const configTexts: readonly string[] = [
  `queue = ${QUEUE_TURNS}\nwrite_stall_timeout = ${WRITE_STALL_S}\n`,
  `queue = ${QUEUE_TURNS - 3}\nwrite_stall_timeout = ${WRITE_STALL_S / 2}\n`,
  `queue = ${QUEUE_TURNS + 2}\nwrite_stall_timeout = ${WRITE_STALL_S}\n`,
  'queue = "many"\n',
];

const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const over = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", over);
      resolve();
    };
    const timer = setTimeout(over, ms);
    signal.addEventListener("abort", over);
  });

/** A replica's process that may be lost once more; only one that is certainly ours. */
const victim = async ({ life, mark, random }: FaultWorld): Promise<number | undefined> => {
  const { replicas } = await life.status();
  const pids = replicas
    .filter(({ state, heals }) => (state === "ready" || state === "busy") && heals < MAX_LOSSES_PER_REPLICA)
    .flatMap(({ pid }) => (pid !== null && carriesMark(pid, mark) ? [pid] : []));
  return pids.length === 0 ? undefined : pick(random, pids);
};

const kill = async (world: FaultWorld): Promise<void> => {
  const pid = await victim(world);
  if (pid === undefined) return;
  world.life.faulted = true;
  world.onFault("SIGKILL of a replica");
  signalTo(pid, "SIGKILL");
};

const stopFor =
  (ms: (random: () => number) => number, name: string) => async (world: FaultWorld, signal: AbortSignal) => {
    const pid = await victim(world);
    if (pid === undefined) return;
    world.life.faulted = true;
    world.onFault(name);
    signalTo(pid, "SIGSTOP");
    try {
      await pause(ms(world.random), signal);
    } finally {
      if (carriesMark(pid, world.mark)) signalTo(pid, "SIGCONT");
    }
  };

const reload = async ({ life, configFile, random, onFault }: FaultWorld): Promise<void> => {
  writeFileSync(configFile, pick(random, configTexts));
  onFault("SIGHUP");
  life.signal("SIGHUP");
};

const troubles: readonly (readonly [name: string, onUsage: ScriptedEdge["onUsage"]])[] = [
  ["edge refuses", () => 503],
  ["edge knows nobody", () => 401],
  ["edge resets", () => "reset"],
  ["edge loses its answers", () => "answer lost"],
  ["edge lags", () => new Promise((resolve) => setTimeout(() => resolve(204), MAX_EDGE_TROUBLE_MS / 4))],
];

const troubleAtTheEdge = async ({ edge, random, onFault }: FaultWorld, signal: AbortSignal): Promise<void> => {
  const [name, onUsage] = pick(random, troubles);
  onFault(name);
  edge.onUsage = onUsage;
  await pause(intIn(random, 200, MAX_EDGE_TROUBLE_MS), signal);
  edge.onUsage = () => 204;
};

type Fault = (world: FaultWorld, signal: AbortSignal) => Promise<void>;

const shortStop = stopFor(
  (random) => intIn(random, SHORT_STOP_MS.low, SHORT_STOP_MS.high),
  "SIGSTOP, shorter than a stall",
);
const longStop = stopFor(() => LONG_STOP_MS, "SIGSTOP, longer than a stall");
const faults: readonly Fault[] = [
  kill,
  kill,
  shortStop,
  shortStop,
  longStop,
  reload,
  reload,
  troubleAtTheEdge,
  troubleAtTheEdge,
];

/** Makes faults until `signal` says stop; resolves once all are undone, rejects where one could not be made. */
export const makeFaults = async (world: FaultWorld, signal: AbortSignal): Promise<void> => {
  const lasting = new Map<Fault, Promise<void>>();
  const failures: unknown[] = [];
  while (!signal.aborted) {
    await pause(intIn(world.random, FAULT_PAUSE_MS.low, FAULT_PAUSE_MS.high), signal);
    if (signal.aborted) break;
    const fault = pick(world.random, faults);
    if (lasting.has(fault)) continue;
    const run = fault(world, signal)
      .catch((error) => void failures.push(error))
      .finally(() => lasting.delete(fault));
    lasting.set(fault, run);
  }
  await Promise.all(lasting.values());
  if (failures.length > 0) throw failures[0];
};
