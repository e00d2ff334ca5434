/**
 * What one isolate knows of the fleet: a snapshot that is at most MAX_AGE_MS old, and its own breakers and requests under way.
 *
 * No promise is shared between requests: one that another request made dies with it, and whoever waited would hang. So each request that
 * finds the snapshot too old fetches one for itself, within a bound; from REFRESH_AGE_MS on one request has it fetched behind its answer,
 * so that under load nobody waits. Without the object it goes on with what it has, or with the configuration alone.
 */
import { causeOf } from "../cause-of.ts";
import { logError, logInfo } from "../log.ts";
import { count } from "../metrics/count.ts";
import type { OpenBreakers } from "../metrics/totals.ts";
import type { Agent } from "./agents-config.ts";
import {
  type Breaker,
  beginProbe,
  breakerState,
  CLOSED,
  endProbe,
  noteFailure,
  noteHeaders,
  noteSuccess,
} from "./breaker.ts";
import { type FleetSnapshot, NO_OVERRIDE, type SnapshotReply } from "./fleet-table.ts";
import type { AgentView } from "./rank-agents.ts";

/** From this age on a snapshot is fetched in the background. */
export const REFRESH_AGE_MS = 1_000;
/** Above this age a request does not decide from a snapshot without having tried for a newer one. */
export const MAX_AGE_MS = 2_000;
/** How long a request waits for one; and how long one that fetches in the background keeps others from doing so too. */
export const SNAPSHOT_TIMEOUT_MS = 500;
/** After a failure no request waits again for so long. */
export const RETRY_AFTER_FAILURE_MS = 1_000;

/** Where a snapshot comes from: the Fleet object. */
export type FetchSnapshot = (since: string | null) => Promise<SnapshotReply>;

/** How a request at an agent ended, as far as the agent is concerned. unknown: it says nothing about it. */
export type AgentOutcome = "success" | "failure" | "unknown";

/** One request at one agent. */
export interface AgentUse {
  /** Response headers came. */
  answered(nowMs: number): void;
  /** It is over; a second call changes nothing. */
  ended(outcome: AgentOutcome, nowMs: number): void;
}

interface Held {
  readonly snapshot: FleetSnapshot;
  /** On this isolate's clock. */
  readonly fetchedAtMs: number;
}

export class FleetView {
  #held: Held | undefined;
  /** When a fetch in the background began; undefined: none runs. */
  #refreshSinceMs: number | undefined;
  /** When the last fetch failed; undefined: it did not. */
  #failedAtMs: number | undefined;
  /** By agent's name; bounded by the configuration, for no other name gets in. */
  readonly #breakers = new Map<string, Breaker>();
  readonly #inflight = new Map<string, number>();
  /** Which of its keys an agent took last: 0 or 1. */
  readonly #keyInUse = new Map<string, number>();

  /** Sees to a snapshot that is fresh enough. Never rejects. `background` keeps a promise alive beyond the answer. */
  async refresh(
    fetch: FetchSnapshot,
    background: (work: Promise<unknown>) => void,
    now: () => number,
    timeoutMs: number = SNAPSHOT_TIMEOUT_MS,
  ): Promise<void> {
    const nowMs = now();
    const ageMs = this.#held === undefined ? Number.POSITIVE_INFINITY : nowMs - this.#held.fetchedAtMs;
    if (ageMs < REFRESH_AGE_MS) return;
    if (this.#failedAtMs !== undefined && nowMs - this.#failedAtMs < RETRY_AFTER_FAILURE_MS) return;
    if (ageMs > MAX_AGE_MS) return this.#fetch(fetch, now, timeoutMs);
    if (this.#refreshSinceMs !== undefined && nowMs - this.#refreshSinceMs < timeoutMs) return;
    this.#refreshSinceMs = nowMs;
    background(
      this.#fetch(fetch, now, timeoutMs).finally(() => {
        this.#refreshSinceMs = undefined;
      }),
    );
  }

  async #fetch(fetch: FetchSnapshot, now: () => number, timeoutMs: number): Promise<void> {
    const late = Promise.withResolvers<never>();
    const timer = setTimeout(() => late.reject(new Error(`no snapshot in ${timeoutMs} ms`)), timeoutMs);
    try {
      const since = this.#held?.snapshot.version ?? null;
      const reply = await Promise.race([fetch(since), late.promise]);
      this.#take(reply, now());
      if (this.#failedAtMs !== undefined) logInfo("fleet_snapshot_back", {});
      this.#failedAtMs = undefined;
    } catch (error) {
      // Once, not with each request.
      if (this.#failedAtMs === undefined) logError("fleet_snapshot_failed", { cause: causeOf(error) });
      this.#failedAtMs = now();
    } finally {
      clearTimeout(timer);
    }
  }

  #take(reply: SnapshotReply, nowMs: number): void {
    const rows = reply.rows ?? this.#held?.snapshot.rows;
    if (rows === undefined) return;
    // Replies may overtake each other.
    if (this.#held !== undefined && reply.nowMs < this.#held.snapshot.nowMs) return;
    this.#held = { snapshot: { version: reply.version, nowMs: reply.nowMs, rows }, fetchedAtMs: nowMs };
  }

  /** The configured agents as they are known now. */
  agents(configured: readonly Agent[], nowMs: number): AgentView[] {
    const held = this.#held;
    const rows = new Map(held?.snapshot.rows.map((row) => [row.name, row] as const));
    return configured.map(({ name, weight, models }) => {
      const row = rows.get(name);
      const override = row?.override ?? NO_OVERRIDE;
      const beatAgeMs =
        held === undefined || row?.beatAtMs == null
          ? 0
          : Math.max(0, held.snapshot.nowMs - row.beatAtMs) + Math.max(0, nowMs - held.fetchedAtMs);
      return {
        name,
        weight: override.weight ?? weight,
        models,
        override,
        heartbeat: row?.heartbeat ?? undefined,
        beatAgeMs,
        ownInflight: this.#inflight.get(name) ?? 0,
        breaker: breakerState(this.#breakerOf(name), nowMs),
      };
    });
  }

  /**
   * A request goes to an agent. Undefined where its breaker does not let it: somebody else has begun the one probe since agents() was
   * asked. `openMs` is how long a breaker stays open.
   */
  begin(name: string, nowMs: number, openMs: number): AgentUse | undefined {
    const state = breakerState(this.#breakerOf(name), nowMs);
    if (state === "open") return undefined;
    const isProbe = state === "half-open";
    if (isProbe) this.#change(name, beginProbe(this.#breakerOf(name), nowMs));
    this.#inflight.set(name, (this.#inflight.get(name) ?? 0) + 1);
    let isOver = false;
    return {
      answered: (atMs) => this.#change(name, noteHeaders(this.#breakerOf(name), atMs)),
      ended: (outcome, atMs) => {
        if (isOver) return;
        isOver = true;
        const left = (this.#inflight.get(name) ?? 0) - 1;
        if (left > 0) this.#inflight.set(name, left);
        else this.#inflight.delete(name);
        const breaker = this.#breakerOf(name);
        if (outcome === "failure") this.#change(name, noteFailure(breaker, atMs, openMs));
        else if (outcome === "success") this.#change(name, noteSuccess(breaker));
        else if (isProbe) this.#change(name, endProbe(breaker));
      },
    };
  }

  /** Breakers that are not closed, for the metrics. */
  openBreakers(): OpenBreakers {
    return Object.fromEntries(
      [...this.#breakers].flatMap(([name, { openUntilMs }]) =>
        openUntilMs === undefined ? [] : [[name, openUntilMs]],
      ),
    );
  }

  #breakerOf(name: string): Breaker {
    return this.#breakers.get(name) ?? CLOSED;
  }

  #change(name: string, next: Breaker): void {
    const before = this.#breakerOf(name);
    if (before.openUntilMs === undefined && next.openUntilMs !== undefined) {
      logError("breaker_opened", { agent: name });
      count("breaker_changes_total", [name, "open"]);
    }
    if (before.openUntilMs !== undefined && next.openUntilMs === undefined) {
      logInfo("breaker_closed", { agent: name });
      count("breaker_changes_total", [name, "closed"]);
    }
    if (next.weight === 0 && next.openUntilMs === undefined) this.#breakers.delete(name);
    else this.#breakers.set(name, next);
  }

  /** Index of the key to begin with. */
  keyInUse(name: string): number {
    return this.#keyInUse.get(name) ?? 0;
  }

  /** An agent took the key of that index. */
  keyTaken(name: string, index: number): void {
    if (index === 0) this.#keyInUse.delete(name);
    else this.#keyInUse.set(name, index);
  }
}

const views = new WeakMap<object, FleetView>();

/** The isolate's view for its `env`. */
export const fleetView = (env: object): FleetView => {
  const known = views.get(env);
  if (known !== undefined) return known;
  const view = new FleetView();
  views.set(env, view);
  return view;
};
