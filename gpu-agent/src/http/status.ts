/** What `/v1/status` tells: replicas, queue and counters as they are now. */
import type { ServedModel } from "../models/served-model.ts";
import type { ReplicaPool } from "../replicas/pool.ts";
import type { ReplicaState } from "../replicas/replica-state.ts";
import type { AdmissionQueue } from "../turn/admission-queue.ts";
import type { UsageFigures } from "../usage/usage-figures.ts";

export interface AgentStatus {
  readonly model: string;
  readonly draining: boolean;
  /** Turns under way, waiting ones included; turns that wait for a lock or slot. */
  readonly inflight: number;
  readonly waiting: number;
  /** Usage records on their way to the edge (UsageFigures); null where none are kept. */
  readonly usage: {
    readonly backlog: number;
    readonly rejected: number;
    readonly delivery_error: string | null;
  } | null;
  readonly replicas: ReadonlyArray<{
    readonly index: number;
    readonly state: ReplicaState;
    readonly reason: string;
    /** ISO times: since when it is in this state (busy counts as ready), and when the next start is due while it heals. */
    readonly since: string;
    readonly next_heal: string | null;
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
  readonly queue: AdmissionQueue;
  readonly model: ServedModel;
  readonly draining: () => boolean;
  readonly usageFigures: () => UsageFigures | undefined;
}): AgentStatus => ({
  model: services.model.name,
  draining: services.draining(),
  inflight: services.pool.inflight + services.queue.waiting,
  waiting: services.pool.waiting + services.queue.waiting,
  usage: usageStatus(services.usageFigures()),
  replicas: services.pool.replicas.map(
    ({ index, state, reason, sinceMs, healAtMs, engine, inflight, served, heals }) => ({
      index,
      state,
      reason,
      since: new Date(sinceMs).toISOString(),
      next_heal: healAtMs === undefined ? null : new Date(healAtMs).toISOString(),
      pid: engine?.process.pid ?? null,
      slots: engine?.leases.slots ?? 0,
      free_slots: engine?.usable ? engine.leases.free : 0,
      inflight,
      waiting: engine?.leases.waiting ?? 0,
      served,
      heals,
      context: engine?.info?.maxContext ?? null,
      dropped_lines: engine?.droppedLines ?? 0,
    }),
  ),
});

const usageStatus = (figures: UsageFigures | undefined): AgentStatus["usage"] =>
  figures === undefined
    ? null
    : { backlog: figures.backlog, rejected: figures.rejected, delivery_error: figures.deliveryError };
