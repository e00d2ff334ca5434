/**
 * The table of agents that the Fleet object keeps: who beat last when, and what an operator has set for whom. Pure memory: `nowMs` is
 * passed in, and what has to last is handed over by whoever constructs it.
 *
 * It judges nobody: which agent is healthy is decided from a snapshot (rank-agents.ts). Heartbeats are not kept anywhere else; after a
 * restart they are there again within one interval.
 */
import type { Heartbeat } from "@lockgate/shared-types";

/** One row for each agent that an edge can have; a name that is no longer configured makes room first. */
export const MAX_ROWS = 64;

/** What an operator has set, above the configuration. */
export interface AgentOverride {
  /** Gets no new turn. */
  readonly disabled: boolean;
  /** In place of the configured weight; null: the configured one. */
  readonly weight: number | null;
}
export const NO_OVERRIDE: AgentOverride = { disabled: false, weight: null };

export interface AgentRow {
  readonly name: string;
  /** Null for one that has only been set. */
  readonly heartbeat: Heartbeat | null;
  /** Unix time, ms, on the object's clock, at which it came; null likewise. */
  readonly beatAtMs: number | null;
  /** Heartbeats since the object started. */
  readonly beats: number;
  readonly override: AgentOverride;
}

/** The table at one moment. */
export interface FleetSnapshot {
  /** Tells two states of the table apart, also across restarts of the object. */
  readonly version: string;
  /** The object's clock when it was read, Unix time, ms: against it the ages of heartbeats count. */
  readonly nowMs: number;
  readonly rows: readonly AgentRow[];
}

/** What a reader that has `version` already is told. */
export type SnapshotReply = FleetSnapshot | { readonly version: string; readonly nowMs: number; readonly rows: null };

export class FleetTable {
  readonly #start: string;
  readonly #rows = new Map<string, AgentRow>();
  #changes = 0;

  /** `start` must differ from start to start; `overrides` are those that have lasted. */
  constructor(start: string, overrides: Iterable<readonly [name: string, override: AgentOverride]>) {
    this.#start = start;
    for (const [name, override] of overrides) {
      this.#rows.set(name, { name, heartbeat: null, beatAtMs: null, beats: 0, override });
    }
  }

  /** A heartbeat of agent `name` came. */
  beat(name: string, heartbeat: Heartbeat, nowMs: number): void {
    const row = this.#rows.get(name);
    this.#put({
      name,
      heartbeat,
      beatAtMs: nowMs,
      beats: (row?.beats ?? 0) + 1,
      override: row?.override ?? NO_OVERRIDE,
    });
  }

  /** Changes what is given; returns what holds then. */
  set(name: string, change: Partial<AgentOverride>): AgentOverride {
    const row = this.#rows.get(name) ?? { name, heartbeat: null, beatAtMs: null, beats: 0, override: NO_OVERRIDE };
    const override = { ...row.override, ...change };
    this.#put({ ...row, override });
    return override;
  }

  /** The table now; without rows for a reader that has this version. */
  snapshot(since: string | null, nowMs: number): SnapshotReply {
    const version = `${this.#start}.${this.#changes}`;
    return { version, nowMs, rows: version === since ? null : [...this.#rows.values()] };
  }

  #put(row: AgentRow): void {
    if (!this.#rows.has(row.name) && this.#rows.size >= MAX_ROWS) {
      const silent = [...this.#rows.values()].sort((a, b) => (a.beatAtMs ?? 0) - (b.beatAtMs ?? 0))[0];
      if (silent !== undefined) this.#rows.delete(silent.name);
    }
    this.#rows.set(row.name, row);
    this.#changes += 1;
  }
}
