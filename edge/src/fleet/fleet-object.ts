/**
 * The one object that all isolates share for the fleet: the table of heartbeats, what an operator has set, the nonces of the agents'
 * messages, and what all isolates have counted. A thin shell around fleet-table.ts, totals.ts and the shared nonce set.
 *
 * Heartbeats, nonces and counts live in memory. A restarted object has lost its nonces, and so takes no message that was signed before its start;
 * what an operator has set is durable before the call returns.
 */
import { DurableObject } from "cloudflare:workers";
import {
  createNonceSet,
  type Heartbeat,
  isBeforeStart,
  NONCE_RETENTION_MS,
  type NonceVerdict,
} from "@lockgate/shared-types";
import type { Env } from "../env.ts";
import type { FleetMetrics } from "../metrics/families.ts";
import { type IsolateReport, Totals } from "../metrics/totals.ts";
import { type AgentOverride, FleetTable, type SnapshotReply } from "./fleet-table.ts";

/** The one object's name. */
export const FLEET_NAME = "fleet";

/** Storage: whether the object has ever run; an agent's override under its name. */
const BORN = "born";
const OVERRIDE = "override:";

export class Fleet extends DurableObject<Env> {
  readonly #table: FleetTable;
  readonly #nonces = createNonceSet(NONCE_RETENTION_MS);
  readonly #startedAtMs: number;
  readonly #totals = new Totals();
  readonly #countsSinceMs = Date.now();

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    const { kv } = ctx.storage;
    // The first object of all has no predecessor that could have taken a message before.
    this.#startedAtMs = kv.get(BORN) === undefined ? 0 : Date.now();
    if (this.#startedAtMs === 0) kv.put(BORN, true);
    const overrides = [...kv.list<AgentOverride>({ prefix: OVERRIDE })].map(
      ([key, override]) => [key.slice(OVERRIDE.length), override] as const,
    );
    this.#table = new FleetTable(crypto.randomUUID(), overrides);
  }

  /** Takes a heartbeat of the agent `name`, whose signature was verified. */
  beat(name: string, heartbeat: Heartbeat): void {
    this.#table.beat(name, heartbeat, Date.now());
  }

  /** The table; without rows for a reader that has this version already. An isolate that asks also tells what it has counted. */
  snapshot(since: string | null = null, report: IsolateReport | null = null): SnapshotReply {
    if (report !== null) this.tell(report);
    return this.#table.snapshot(since, Date.now());
  }

  /** Takes what an isolate has counted. */
  tell(report: IsolateReport): void {
    this.#totals.take(report, Date.now());
  }

  /** What a scrape reads. */
  metrics(): FleetMetrics {
    const nowMs = Date.now();
    const { rows } = this.#table.snapshot(null, nowMs);
    return { ...this.#totals.view(nowMs), nowMs, startedAtMs: this.#countsSinceMs, rows: rows ?? [] };
  }

  /** Takes the nonce of a message once; `createdS` is when it was signed, Unix time in s. */
  takeNonce(nonce: string, createdS: number): NonceVerdict | "before_start" {
    if (isBeforeStart(createdS, this.#startedAtMs)) return "before_start";
    return this.#nonces.take(nonce, Date.now());
  }

  /** Sets what is given for the agent `name`, durably; returns what holds then. */
  setAgent(name: string, change: Partial<AgentOverride>): AgentOverride {
    const override = this.#table.set(name, change);
    this.ctx.storage.kv.put(`${OVERRIDE}${name}`, override);
    return override;
  }
}

/** The object, as the worker and the admin API call it. */
export const fleetOf = (env: Pick<Env, "FLEET">): DurableObjectStub<Fleet> =>
  env.FLEET.get(env.FLEET.idFromName(FLEET_NAME));
