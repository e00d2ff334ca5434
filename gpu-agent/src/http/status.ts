/** What `/v1/status` tells: replicas, queue and counters as they are now. */
import type { ServedModel } from "../models/served-model.ts";
import type { ReplicaPool } from "../replicas/pool.ts";

export interface AgentStatus {
  readonly model: string;
  readonly draining: boolean;
  /** Turns admitted and not settled; turns that wait for a lock or slot. */
  readonly inflight: number;
  readonly waiting: number;
  readonly replicas: ReadonlyArray<{
    readonly index: number;
    readonly state: string;
    readonly reason: string;
    readonly pid: number | null;
    readonly slots: number;
    readonly free_slots: number;
    readonly inflight: number;
    readonly waiting: number;
    readonly served: number;
    readonly heals: number;
    readonly context: number | null;
    /** Lines dropped because they named a turn that did not run. */
    readonly dropped_lines: number;
  }>;
}

export const agentStatus = (services: {
  readonly pool: ReplicaPool;
  readonly model: ServedModel;
  readonly draining: () => boolean;
}): AgentStatus => ({
  model: services.model.name,
  draining: services.draining(),
  inflight: services.pool.inflight,
  waiting: services.pool.waiting,
  replicas: services.pool.replicas.map(({ index, state, reason, engine, inflight, served, heals }) => ({
    index,
    state,
    reason,
    pid: engine?.process.pid ?? null,
    slots: engine?.leases.slots ?? 0,
    free_slots: engine?.usable ? engine.leases.free : 0,
    inflight,
    waiting: engine?.leases.waiting ?? 0,
    served,
    heals,
    context: engine?.info?.maxContext ?? null,
    dropped_lines: engine?.droppedLines ?? 0,
  })),
});
