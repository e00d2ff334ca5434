/**
 * Every instrument of the agent: name, help, buckets, labels. vLLM's names where the thing is the same, so that its dashboards work;
 * `lockgate:` for what is ours. Units are in the names, seconds and tokens.
 *
 * No label names a user, a key or a request. Deliberately absent: when something is counted (request-meter.ts, agent-metrics.ts).
 */
// prom-client: the text format and its escaping, and the fastest observe that was measured (0.15 µs); no other code of its size is used.
import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import { createGenAiMetrics } from "./gen-ai-metrics.ts";

interface Described {
  readonly name: string;
  readonly help: string;
}

/** 1 ms is a short prompt on a small model; half an hour a long one behind a full queue. */
const waitBuckets = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 1_800];
/** From a tiny model on a GPU to a big one on a CPU. */
const tokenBuckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10];
/** The drain allowance is 10 s and grows with a prefill under way. */
const drainBuckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 60];

/** Seconds, by replica. */
const histograms = {
  timeToFirstToken: {
    name: "vllm:time_to_first_token_seconds",
    help: "From the request's arrival to its first text that is not empty.",
    buckets: waitBuckets,
  },
  interTokenLatency: {
    name: "vllm:inter_token_latency_seconds",
    help: "From one token to the next as the replica's turn gave them out; tokens that came together are 0 apart.",
    buckets: tokenBuckets,
  },
  requestLatency: {
    name: "vllm:e2e_request_latency_seconds",
    help: "From the arrival of a request to the end of its answer; finished requests only.",
    buckets: waitBuckets,
  },
  lockWait: {
    name: "lockgate:lock_wait_seconds",
    help: "From entering the queue, or from losing a replica, to holding a replica's lock or slot.",
    buckets: waitBuckets,
  },
  drain: {
    name: "lockgate:drain_seconds",
    help: "From ending a turn early (client gone, stop string) to having read its DONE, ERR or end of output.",
    buckets: drainBuckets,
  },
} as const;

/** By replica. */
const counters = {
  promptTokens: { name: "vllm:prompt_tokens_total", help: "Prompt tokens of turns that ran." },
  generationTokens: {
    name: "vllm:generation_tokens_total",
    help: "Tokens that the engines made, those that nobody read included.",
  },
  prefixCacheQueries: {
    name: "vllm:prefix_cache_queries_total",
    help: "Prompt tokens that were looked up in the KV cache.",
  },
  prefixCacheHits: { name: "vllm:prefix_cache_hits_total", help: "Prompt tokens that came from the KV cache." },
  draftTokens: { name: "vllm:spec_decode_num_draft_tokens_total", help: "Speculative tokens that were offered." },
  acceptedTokens: {
    name: "vllm:spec_decode_num_accepted_tokens_total",
    help: "Speculative tokens that were accepted.",
  },
  cancelledTurns: { name: "lockgate:cancelled_turns_total", help: "Requests whose client went away before the end." },
  poisonedTurns: {
    name: "lockgate:poisoned_turns_total",
    help: "Turns that held a replica when it was lost or did not come back.",
  },
  poisonings: { name: "lockgate:replica_poisonings_total", help: "Times that a replica which was ready was given up." },
  heals: { name: "lockgate:replica_heals_total", help: "Starts of a replica after its first." },
  droppedLines: {
    name: "lockgate:dropped_lines_total",
    help: "Lines of an engine that named a turn which did not run.",
  },
} as const;

/** By replica; read when somebody asks. */
const gauges = {
  running: { name: "vllm:num_requests_running", help: "Turns that hold a replica's lock or slot." },
  kvCacheUsage: {
    name: "vllm:kv_cache_usage_perc",
    help: "Tokens of the turns that run, of all that the replica's slots hold; 1 is full. What idle slots keep is free to use.",
  },
  up: { name: "lockgate:replica_up", help: "1 while the replica takes turns." },
} as const;

/** With labels of their own. */
const others = {
  waiting: {
    name: "vllm:num_requests_waiting",
    help: 'Turns that wait for a lock or slot; replica="none" for those that wait for whichever comes first.',
  },
  success: {
    name: "vllm:request_success_total",
    help: "Requests that ended as asked (stop, length) or by their client (abort).",
  },
  failures: {
    name: "lockgate:request_failures_total",
    help: "Requests that failed, those that the queue refused among them, by the code that the client read.",
  },
  state: { name: "lockgate:replica_state", help: "1 for the state that the replica is in." },
  responses: {
    name: "lockgate:http_responses_total",
    help: "Answers by route and status; 499 for a client that left before any.",
  },
  usageBacklog: {
    name: "lockgate:usage_backlog_records",
    help: "Usage records in the spool that the edge has not acknowledged.",
  },
  usageRejected: {
    name: "lockgate:usage_rejected_records_total",
    help: "Usage records that went to the reject file: refused by the edge for good, or damaged.",
  },
  usageFailures: {
    name: "lockgate:usage_delivery_failures_total",
    help: "Attempts to deliver usage records that came to nothing, by cause: http_<status>, timeout, or the system's code.",
  },
} as const;

/** What one replica's bound instruments are called with. */
export type ReplicaInstruments = Readonly<Record<keyof typeof histograms, { observe(seconds: number): void }>> &
  Readonly<Record<keyof typeof counters, { inc(by?: number): void }>>;

/** `replica` of what belongs to none. */
export const NO_REPLICA = "none";

const mapValues = <K extends string, V, W>(values: Readonly<Record<K, V>>, make: (value: V) => W): Record<K, W> =>
  Object.fromEntries(Object.entries<V>(values).map(([key, value]) => [key, make(value)])) as Record<K, W>;

/** Makes all instruments in a registry of their own; `replicas` of them say 0 from the first scrape on. `model` is the one that is served. */
export const createInstruments = (registry: Registry, replicas: number, model: string) => {
  const registers = [registry];
  const gauge = <L extends string>(described: Described, labelNames: readonly L[]) =>
    new Gauge<L>({ ...described, labelNames: [...labelNames], registers });
  const counter = <L extends string>(described: Described, labelNames: readonly L[]) =>
    new Counter<L>({ ...described, labelNames: [...labelNames], registers });

  const byHistogram = mapValues(
    histograms,
    ({ name, help, buckets }) =>
      new Histogram<"replica">({ name, help, buckets: [...buckets], labelNames: ["replica"], registers }),
  );
  const byCounter = mapValues(counters, (described) => counter(described, ["replica"]));

  const ofReplica = (replica: string): ReplicaInstruments => {
    for (const histogram of Object.values(byHistogram)) histogram.zero({ replica });
    for (const one of Object.values(byCounter)) one.inc({ replica }, 0);
    return {
      ...mapValues(byHistogram, (histogram) => histogram.labels({ replica })),
      ...mapValues(byCounter, (one) => one.labels({ replica })),
    };
  };
  return {
    replicas: Array.from({ length: replicas }, (_, index) => ofReplica(String(index))),
    noReplica: { cancelledTurns: byCounter.cancelledTurns.labels({ replica: NO_REPLICA }) },
    ...mapValues(gauges, (described) => gauge(described, ["replica"])),
    waiting: gauge(others.waiting, ["replica"]),
    success: counter(others.success, ["replica", "finished_reason"]),
    failures: counter(others.failures, ["replica", "code"]),
    state: gauge(others.state, ["replica", "state"]),
    responses: counter(others.responses, ["route", "status"]),
    usageBacklog: gauge(others.usageBacklog, []),
    usageRejected: counter(others.usageRejected, []),
    usageFailures: counter(others.usageFailures, ["code"]),
    genAi: createGenAiMetrics(registry, model),
  };
};

export type Instruments = ReturnType<typeof createInstruments>;
