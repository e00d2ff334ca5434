/**
 * What the Fleet object knows, as families of metrics. Pure; `nowMs` is on the object's clock.
 */
import type { AgentRow } from "../fleet/fleet-table.ts";
import { type CounterName, counters, fullName, type GaugeName, gauges } from "./catalogue.ts";
import type { Counts } from "./counts.ts";
import type { Family, Sample } from "./exposition.ts";
import type { TotalsView } from "./totals.ts";

/** Everything that a scrape reads. */
export interface FleetMetrics extends TotalsView {
  readonly nowMs: number;
  readonly startedAtMs: number;
  readonly rows: readonly AgentRow[];
}

const samplesByCounter = (counts: Counts): Map<string, Sample[]> => {
  const samples = new Map<string, Sample[]>();
  for (const [key, value] of Object.entries(counts)) {
    const [name = "", ...values] = key.split(" ");
    const labels = counters[name as CounterName]?.labels.map((label, at) => [label, values[at] ?? ""] as const);
    // What an older version of the worker counted under a name that is gone.
    if (labels === undefined) continue;
    samples.set(name, [...(samples.get(name) ?? []), { labels, value }]);
  }
  return samples;
};

type GaugeSample = readonly [name: GaugeName, values: readonly string[], value: number];

/** Of one configured agent; `row` is undefined for one that the table does not have. */
const agentSamples = (
  name: string,
  row: AgentRow | undefined,
  { nowMs }: FleetMetrics,
  staleMs: number,
): GaugeSample[] => {
  const disabled: GaugeSample = ["agent_disabled", [name], row?.override.disabled === true ? 1 : 0];
  const { heartbeat = null, beatAtMs = null } = row ?? {};
  if (heartbeat === null || beatAtMs === null) return [["agent_state", [name, "silent"], 1], disabled];
  const ageMs = Math.max(0, nowMs - beatAtMs);
  return [
    ["agent_state", [name, ageMs > staleMs ? "stale" : heartbeat.state], 1],
    disabled,
    ["agent_heartbeat_age_seconds", [name], ageMs / 1000],
    ["agent_free_slots", [name], heartbeat.free_slots],
    ["agent_inflight_requests", [name], heartbeat.inflight],
    ["agent_waiting_requests", [name], heartbeat.waiting],
    ["agent_usage_backlog_records", [name], heartbeat.usage_backlog],
  ];
};

/** All families; `agents` are the names of the configuration, `staleMs` the age from which on a heartbeat says nothing. */
export const familiesOf = (metrics: FleetMetrics, agents: readonly string[], staleMs: number): Family[] => {
  const counted = samplesByCounter(metrics.counts);
  const rows = new Map(metrics.rows.map((row) => [row.name, row] as const));
  const gauged: GaugeSample[] = [
    ...agents.flatMap((name) => agentSamples(name, rows.get(name), metrics, staleMs)),
    ...metrics.breakers.map(
      ({ agent, state, isolates }): GaugeSample => ["breaker_isolates", [agent, state], isolates],
    ),
    ["isolates", [], metrics.isolates],
    ["counters_start_time_seconds", [], metrics.startedAtMs / 1000],
  ];
  return [
    ...Object.entries(counters).map(
      ([name, { help }]): Family => ({
        name: fullName(name),
        type: "counter",
        help,
        samples: counted.get(name) ?? [],
      }),
    ),
    ...Object.entries(gauges).map(
      ([name, { help, labels }]): Family => ({
        name: fullName(name),
        type: "gauge",
        help,
        samples: gauged
          .filter(([of]) => of === name)
          .map(([, values, value]) => ({
            labels: labels.map((label, at) => [label, values[at] ?? ""] as const),
            value,
          })),
      }),
    ),
  ];
};
