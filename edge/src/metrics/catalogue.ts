/**
 * Every metric of the edge: name, help, labels. Pure.
 *
 * Counters are counted in isolates and objects and come together in the Fleet object; gauges are read from there when somebody asks. Label
 * values are agents' names and words of ours: no label names a key, a tenant, a user or a model.
 */

interface Described {
  readonly help: string;
  readonly labels: readonly string[];
}

const PREFIX = "lockgate:edge_";

/** The whole name of a metric. */
export const fullName = (name: string): string => `${PREFIX}${name}`;

export const counters = {
  responses_total: { help: "Answers by route and class of status.", labels: ["route", "class"] },
  refusals_total: { help: "Requests of clients that the edge itself refused, by cause.", labels: ["cause"] },
  upstream_attempts_total: {
    help: "Requests sent to agents, by what came of them: answer (passed on), busy, refusing, unknown_key, misled, not_reached, failed, timed_out, client_gone.",
    labels: ["agent", "result"],
  },
  upstream_failovers_total: {
    help: "Times that a request went on to another agent, by the one that it left.",
    labels: ["agent"],
  },
  streams_total: {
    help: "Answers of agents by how they ended: complete, client_gone, or broken by the agent's side.",
    labels: ["agent", "end"],
  },
  breaker_changes_total: {
    help: "Circuit breakers that opened or closed, over all isolates.",
    labels: ["agent", "to"],
  },
  guard_calls_total: { help: "Calls of keys' guards by result.", labels: ["call", "result"] },
  leases_expired_total: { help: "Leases that ran out because nobody freed or renewed them.", labels: [] },
  usage_records_total: { help: "Usage records that came, by whether they were new.", labels: ["result"] },
  requests_lost_total: { help: "Requests closed as lost: their usage record did not come in time.", labels: [] },
  fleet_calls_total: { help: "Calls of the Fleet object for a snapshot, by result.", labels: ["result"] },
  series_dropped_total: { help: "Counts that had no place any more: too many series.", labels: [] },
} as const satisfies Readonly<Record<string, Described>>;
export type CounterName = keyof typeof counters;

export const gauges = {
  agent_state: {
    help: "1 for the state that an agent is in: its own word, silent before its first heartbeat, stale without a recent one.",
    labels: ["agent", "state"],
  },
  agent_disabled: { help: "1 while an operator keeps new turns from an agent.", labels: ["agent"] },
  agent_heartbeat_age_seconds: { help: "Since an agent's last heartbeat.", labels: ["agent"] },
  agent_free_slots: { help: "Free slots of an agent by its last heartbeat.", labels: ["agent"] },
  agent_inflight_requests: { help: "Turns under way at an agent, waiting ones included.", labels: ["agent"] },
  agent_waiting_requests: { help: "Turns that wait for a slot of an agent.", labels: ["agent"] },
  agent_usage_backlog_records: { help: "Usage records of an agent that the edge has not booked.", labels: ["agent"] },
  breaker_isolates: {
    help: "Isolates whose circuit breaker of an agent is open, or half open: it lets one request try.",
    labels: ["agent", "state"],
  },
  isolates: { help: "Isolates and objects that have told their counts in the last five minutes.", labels: [] },
  counters_start_time_seconds: {
    help: "Unix time from which the counters count: the last start of the object that keeps them.",
    labels: [],
  },
} as const satisfies Readonly<Record<string, Described>>;
export type GaugeName = keyof typeof gauges;
