/** Agents as the edge's routing sees them, for tests of its decisions: ready, idle and equal but for what a test says. */
import type { Heartbeat } from "@lockgate/shared-types";
import { NO_OVERRIDE } from "../../edge/src/fleet/fleet-table.ts";
import type { AgentView } from "../../edge/src/fleet/rank-agents.ts";

/** A heartbeat of one replica with `slots` slots, of which `free` are free. */
export const beatOf = (
  agent: string,
  { slots = 4, free = slots, ...rest }: Partial<Heartbeat> & { readonly slots?: number; readonly free?: number } = {},
): Heartbeat => ({
  agent_id: agent,
  sent_at_ms: 1_800_000_000_000,
  state: "ready",
  models: ["atlas"],
  replicas: [{ index: 0, state: "ready", slots, free_slots: free }],
  inflight: slots - free,
  waiting: 0,
  free_slots: free,
  tokens_per_second: 50,
  usage_backlog: 0,
  ...rest,
});

export const viewOf = (name: string, rest: Partial<AgentView> = {}): AgentView => ({
  name,
  weight: 1,
  models: undefined,
  override: NO_OVERRIDE,
  heartbeat: beatOf(name),
  beatAgeMs: 0,
  ownInflight: 0,
  breaker: "closed",
  ...rest,
});
