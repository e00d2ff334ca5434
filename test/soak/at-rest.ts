/** What an agent holds while nobody asks: slots, open files, handles and timers, memory, processes; and whether it is that much again later. */
import { type AgentLife, isIdle, type LifeStatus, waitFor } from "./agent-life.ts";
import { type Check, countCheck, noneCheck } from "./check.ts";
import { growthCheck } from "./memory-trend.ts";
import { excessOver, markedProcesses, mostOf, openFiles, residentBytes } from "./process-facts.ts";
import {
  AGENT_RSS_ALLOWANCE_BYTES,
  HEAP_ALLOWANCE_BYTES,
  IDLE_LIMIT_MS,
  REPLICA_RSS_ALLOWANCE_BYTES,
} from "./soak-limits.ts";

/** Looks of a baseline, and the pause between them: heartbeats come and go meanwhile, and count as part of rest. */
const LOOKS = 12;
const LOOK_PAUSE_MS = 150;

type Counts = Readonly<Record<string, number>>;

export interface Holdings {
  readonly agentFiles: Counts;
  /** Of the replica that has the most of each kind. */
  readonly replicaFiles: Counts;
  readonly resources: Counts;
  readonly heapBytes: number;
  readonly agentBytes: number;
  /** Of the largest replica. */
  readonly replicaBytes: number;
}

const pidsOf = ({ replicas }: LifeStatus): readonly number[] => replicas.flatMap(({ pid }) => pid ?? []);

/** One look. */
const look = async (life: AgentLife): Promise<Holdings> => {
  const pids = pidsOf(await life.status());
  const { heapBytes, resources } = await life.probe();
  return {
    agentFiles: openFiles(life.pid) ?? {},
    replicaFiles: mostOf(pids.map((pid) => openFiles(pid) ?? {})),
    resources,
    heapBytes,
    agentBytes: residentBytes(life.pid),
    replicaBytes: Math.max(0, ...pids.map(residentBytes)),
  };
};

const text = (counts: Counts): string =>
  Object.entries(counts)
    .map(([kind, count]) => `${count} ${kind}`)
    .sort()
    .join(", ") || "none";

/** Waits until nothing is in flight and every replica is ready; what is missing is told by the checks. */
export const comeToRest = (life: AgentLife) => waitFor(() => life.status(), isIdle, IDLE_LIMIT_MS);

/** The most that it holds at rest, over several looks. */
export const takeBaseline = async (life: AgentLife): Promise<Holdings> => {
  const looks: Holdings[] = [];
  for (let at = 0; at < LOOKS; at++) {
    looks.push(await look(life));
    await new Promise((resolve) => setTimeout(resolve, LOOK_PAUSE_MS));
  }
  const most = (of: (holdings: Holdings) => number) => Math.max(...looks.map(of));
  return {
    agentFiles: mostOf(looks.map(({ agentFiles }) => agentFiles)),
    replicaFiles: mostOf(looks.map(({ replicaFiles }) => replicaFiles)),
    resources: mostOf(looks.map(({ resources }) => resources)),
    heapBytes: most(({ heapBytes }) => heapBytes),
    agentBytes: most(({ agentBytes }) => agentBytes),
    replicaBytes: most(({ replicaBytes }) => replicaBytes),
  };
};

const countsOf = ({ agentFiles, replicaFiles, resources }: Holdings) => ({ agentFiles, replicaFiles, resources });

/** Everything that must be so again after the load. */
export const restChecks = async (
  life: AgentLife,
  baseline: Holdings,
  mark: string,
): Promise<{ readonly checks: readonly Check[]; readonly holdings: Holdings }> => {
  const { last: status } = await comeToRest(life);
  const excess = (holdings: Holdings) => ({
    agentFiles: excessOver(baseline.agentFiles, holdings.agentFiles),
    replicaFiles: excessOver(baseline.replicaFiles, holdings.replicaFiles),
    resources: excessOver(baseline.resources, holdings.resources),
  });
  const isBack = (holdings: Holdings) =>
    Object.values(excess(holdings)).every((counts) => Object.keys(counts).length === 0);
  const { last: holdings } = await waitFor(() => look(life), isBack, IDLE_LIMIT_MS);
  const over = excess(holdings);
  const backTo = (name: string, of: keyof ReturnType<typeof countsOf>): Check => ({
    name,
    ok: Object.keys(over[of]).length === 0,
    wanted: `at most ${text(baseline[of])}`,
    found: text(holdings[of]),
    details: [],
  });

  const { replicas } = status;
  const sum = (of: (replica: LifeStatus["replicas"][number]) => number) =>
    replicas.reduce((total, replica) => total + of(replica), 0);
  const scrape = await life.metrics();
  const gauge = (name: string, labels: readonly string[]) =>
    labels.reduce((total, replica) => total + scrape.value(name, { replica }), 0);
  const indexes = replicas.map(({ index }) => String(index));
  const expected = [life.pid, ...pidsOf(status)];
  const strangers = markedProcesses(mark).filter((pid) => !expected.includes(pid));

  const checks = [
    countCheck("turns in flight", status.inflight, 0),
    countCheck("turns that wait", status.waiting, 0),
    noneCheck(
      "replicas that are not ready",
      replicas.filter(({ state }) => state !== "ready").map(({ index, state }) => `replica ${index} is ${state}`),
    ),
    countCheck(
      "free slots",
      sum(({ free_slots }) => free_slots),
      sum(({ slots }) => slots),
    ),
    countCheck("metrics: turns that run", gauge("vllm:num_requests_running", indexes), 0),
    countCheck("metrics: turns that wait", gauge("vllm:num_requests_waiting", [...indexes, "none"]), 0),
    countCheck("metrics: KV cache in use", gauge("vllm:kv_cache_usage_perc", indexes), 0),
    countCheck("metrics: replicas up", gauge("lockgate:replica_up", indexes), replicas.length),
    countCheck("metrics: lines dropped", gauge("lockgate:dropped_lines_total", indexes), 0),
    backTo("open files of the agent", "agentFiles"),
    backTo("open files of a replica", "replicaFiles"),
    backTo("timers and handles of the agent", "resources"),
    noneCheck("processes beyond agent and replicas", strangers.map(String)),
    growthCheck("heap of the agent at rest", baseline.heapBytes, holdings.heapBytes, HEAP_ALLOWANCE_BYTES),
    growthCheck("memory of the agent at rest", baseline.agentBytes, holdings.agentBytes, AGENT_RSS_ALLOWANCE_BYTES),
    growthCheck(
      "memory of a replica at rest",
      baseline.replicaBytes,
      holdings.replicaBytes,
      REPLICA_RSS_ALLOWANCE_BYTES,
    ),
  ];
  return { checks, holdings };
};
