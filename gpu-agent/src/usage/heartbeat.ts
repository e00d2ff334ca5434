/** What a heartbeat says, made of how the agent is now. It reads; timers and the network are heartbeat-sender.ts. */
import type { Heartbeat } from "@lockgate/shared-types";

/** The agent as it is when it is asked. */
export interface AgentSource {
  readonly replicas: ReadonlyArray<{
    readonly index: number;
    readonly state: string;
    readonly engine:
      | { readonly usable: boolean; readonly leases: { readonly slots: number; readonly free: number } }
      | undefined;
  }>;
  readonly models: readonly string[];
  /** Turns under way, waiting ones included; turns that wait. */
  readonly inflight: () => number;
  readonly waiting: () => number;
  /** What one slot reads or makes; undefined before the first turn. */
  readonly tokensPerSecond: () => number | undefined;
  readonly draining: () => boolean;
}

/** What of the spool a heartbeat tells. */
export interface UsageView {
  /** False while it is full or failing. */
  readonly takesTurns: boolean;
  readonly backlog: number;
}

const stateOf = ({ draining, replicas }: AgentSource, takesTurns: boolean): Heartbeat["state"] => {
  if (draining()) return "draining";
  if (replicas.some(({ engine }) => engine?.usable)) return takesTurns ? "ready" : "overloaded";
  return replicas.some(({ state }) => state === "starting") ? "starting" : "unavailable";
};

/** `nowMs` is Unix time. */
export const heartbeatOf = (agentId: string, agent: AgentSource, usage: UsageView, nowMs: number): Heartbeat => {
  const replicas = agent.replicas.map(({ index, state, engine }) => ({
    index,
    state,
    slots: engine?.leases.slots ?? 0,
    free_slots: engine?.usable ? engine.leases.free : 0,
  }));
  const tokensPerSecond = agent.tokensPerSecond();
  return {
    agent_id: agentId,
    sent_at_ms: nowMs,
    state: stateOf(agent, usage.takesTurns),
    models: [...agent.models],
    replicas,
    inflight: agent.inflight(),
    waiting: agent.waiting(),
    free_slots: replicas.reduce((sum, replica) => sum + replica.free_slots, 0),
    tokens_per_second: tokensPerSecond === undefined ? null : Math.round(tokensPerSecond * 10) / 10,
    usage_backlog: usage.backlog,
  };
};
