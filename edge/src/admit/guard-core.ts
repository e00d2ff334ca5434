/**
 * A key's guard without its object: who may come in now, who waits for a lease, and when which state is written. Clock, timers, storage
 * and ledger are handed in, so that tests run it at any moment and let any write fail.
 *
 * On the path of a request nothing is written. A change is written at most WRITE_DELAY_MS later, so an object that loses its memory has
 * forgotten at most what it admitted, released and settled in that time: it may let in that much over each limit, once for each loss.
 * Definitions and months are written at once: a revocation or a spent budget that was confirmed is never forgotten.
 */
import { causeOf } from "../cause-of.ts";
import { checkKey, noSuchKey, type Refusal } from "./check-key.ts";
import type { GuardStore, StoredKey } from "./guard-store.ts";
import type {
  KeyDefinition,
  KeyGuardView,
  RequestEnd,
  Settlement,
  TakeRequest,
  TakeVerdict,
} from "./key-guard-types.ts";
import { KeyState, type LimitHit } from "./key-state.ts";
import { SETTLE_WAIT_MS } from "./reservations.ts";
import { isSameDefinition } from "./same-definition.ts";
import { WaitingTakers } from "./waiting-takers.ts";

/** From a change to its write. */
export const WRITE_DELAY_MS = 1000;
/** Rows of one alarm; the next one follows at once if there are more. */
export const MAX_LOST_OF_ALARM = 100;
/** The wait after a ledger that took no rows, doubled with each failure up to the second. */
export const LOST_RETRY_MIN_MS = 1000;
export const LOST_RETRY_MAX_MS = 300_000;
/** Open requests in a view. */
export const MAX_OPEN_IN_VIEW = 1000;

/** A request without a record, as the ledger gets it. */
export interface LostRequest {
  readonly requestId: string;
  readonly keyId: string;
  /** Null where the worker died before it could tell. */
  readonly agentId: string | null;
  readonly estimatedTokens: number;
  readonly startedAtMs: number;
  readonly closedAtMs: number;
}

export interface GuardParts {
  readonly store: GuardStore;
  readonly now: () => number;
  /** Calls back once, after at least `delayMs`. */
  readonly later: (delayMs: number, callBack: () => void) => void;
  /** Books rows in the ledger, all or none; a row that is there already, or has a record, is passed over. */
  readonly bookLost: (rows: readonly LostRequest[]) => Promise<void>;
  readonly logError: (event: string, cause: string) => void;
  /** Counts what happened without anybody asking. */
  readonly count?: (name: "leases_expired_total" | "requests_lost_total", by: number) => void;
  readonly lostAfterMs?: number;
}

/** A verdict without the salt, which takes a digest. */
export type CoreVerdict = Omit<Extract<TakeVerdict, { kind: "admitted" }>, "tenantSalt"> | Refusal;

interface Taker {
  readonly request: TakeRequest;
  readonly settle: (verdict: CoreVerdict) => void;
}

export class GuardCore {
  readonly #parts: GuardParts;
  readonly #lostAfterMs: number;
  readonly #waiting = new WaitingTakers<Taker>();
  readonly #state: KeyState;
  #definition: KeyDefinition | undefined;
  /** The alarm that is set in the store. */
  #alarmAtMs: number | undefined;
  #isInAlarm = false;
  #isWritePlanned = false;
  #isWaitEndPlanned = false;
  #ledgerFailures = 0;
  /** A ledger that took no rows is not asked again before. */
  #earliestAlarmMs = 0;
  /** Counts what was learned about months, and which of it is on disk. */
  #monthsVersion = 0;
  #storedMonthsVersion = 0;

  constructor(parts: GuardParts, stored: StoredKey | undefined) {
    this.#parts = parts;
    this.#lostAfterMs = parts.lostAfterMs ?? SETTLE_WAIT_MS;
    this.#state = new KeyState(stored?.state);
    this.#definition = stored?.definition;
    this.#alarmAtMs = stored?.alarmAtMs;
  }

  get definition(): KeyDefinition | undefined {
    return this.#definition;
  }

  /** Verifies the secret and takes all limits or none; settles within TAKE_WAIT_MS. */
  take(request: TakeRequest): Promise<CoreVerdict> {
    // Leases that ran out belong to those who wait.
    this.#serveWaiting();
    const verdict = this.#decide(request);
    if (verdict.kind !== "refused" || verdict.cause !== "concurrency") return Promise.resolve(verdict);
    return new Promise((settle) => {
      if (!this.#waiting.add({ request, settle }, this.#parts.now())) return settle(verdict);
      this.#planWaitEnd();
    });
  }

  renew(request: Pick<TakeRequest, "requestId" | "estimatedTokens">): void {
    if (this.#definition === undefined) return;
    this.#state.renew(request, this.#parts.now());
    this.#planWrite();
  }

  release(end: RequestEnd): void {
    if (this.#definition === undefined) return;
    this.#state.release(end, this.#parts.now());
    this.#serveWaiting();
    this.#planWrite();
  }

  /** Resolves once the months' sums are on disk; the rest is written behind. */
  async settle({ monthTokens, turns }: Settlement): Promise<void> {
    if (this.#definition === undefined) return;
    const nowMs = this.#parts.now();
    for (const turn of turns) this.#state.settle(turn, nowMs);
    if (this.#state.learnMonths(monthTokens, nowMs)) this.#monthsVersion += 1;
    this.#serveWaiting();
    this.#planWrite();
    // Not only for news of this call: an earlier one that said the same may have failed to store it, or be about to.
    if (this.#storedMonthsVersion === this.#monthsVersion) return;
    const version = this.#monthsVersion;
    await this.#parts.store.putMonths(this.#state.storedMonths());
    await this.#parts.store.confirmed();
    this.#storedMonthsVersion = Math.max(this.#storedMonthsVersion, version);
  }

  /**
   * Counts for the very next take; resolves once it is on disk. False, and nothing is changed, if `before` is given and is not the
   * definition of now.
   */
  async define(definition: KeyDefinition, before?: KeyDefinition | null): Promise<boolean> {
    if (before !== undefined && !isSameDefinition(before, this.#definition ?? null)) return false;
    this.#definition = definition;
    this.#serveWaiting();
    await this.#parts.store.putDefinition(definition);
    await this.#parts.store.confirmed();
    return true;
  }

  view(): KeyGuardView | undefined {
    const definition = this.#definition;
    if (definition === undefined) return undefined;
    this.#serveWaiting();
    const nowMs = this.#parts.now();
    return {
      definition,
      leases: this.#state.leases,
      waiting: this.#waiting.count,
      ...this.#state.month(nowMs),
      rateLimits: this.#state.rateLimits(definition.limits, nowMs),
      open: this.#state.openRequests(MAX_OPEN_IN_VIEW),
    };
  }

  /** Closes what is lost. A ledger that fails is asked again later; until it has the rows the requests stay open. */
  async alarm(): Promise<void> {
    this.#alarmAtMs = undefined;
    this.#isInAlarm = true;
    try {
      await this.#closeLost();
    } finally {
      this.#isInAlarm = false;
    }
    await this.#write();
  }

  async #closeLost(): Promise<void> {
    const nowMs = this.#parts.now();
    const lost = this.#state.lost(nowMs, this.#lostAfterMs, MAX_LOST_OF_ALARM);
    const keyId = this.#definition?.keyId;
    if (keyId === undefined || lost.length === 0) return;
    const rows = lost.map(({ requestId, agent, estimatedTokens, startedAtMs }) => ({
      requestId,
      keyId,
      agentId: agent,
      estimatedTokens,
      startedAtMs,
      closedAtMs: nowMs,
    }));
    try {
      await this.#parts.bookLost(rows);
    } catch (error) {
      this.#parts.logError("lost_requests_not_booked", causeOf(error));
      const waitMs = Math.min(LOST_RETRY_MAX_MS, LOST_RETRY_MIN_MS * 2 ** this.#ledgerFailures);
      this.#ledgerFailures += 1;
      this.#earliestAlarmMs = this.#parts.now() + waitMs;
      return;
    }
    this.#ledgerFailures = 0;
    this.#earliestAlarmMs = 0;
    this.#state.closeLost(lost.map(({ requestId }) => requestId));
    this.#parts.count?.("requests_lost_total", lost.length);
  }

  #decide(request: TakeRequest): CoreVerdict {
    const definition = this.#definition;
    if (definition === undefined) return noSuchKey;
    const nowMs = this.#parts.now();
    const refusal = checkKey(definition, request, nowMs);
    if (refusal !== undefined) return refusal;
    const hit = this.#state.take(definition.limits, request, nowMs);
    const rateLimits = this.#state.rateLimits(definition.limits, nowMs);
    if (hit !== undefined) return { ...refusalOf(hit), rateLimits };
    this.#planWrite();
    const diagnostics = definition.scopes.includes("diagnostics");
    return { kind: "admitted", tenantId: definition.tenantId, diagnostics, rateLimits };
  }

  /** Decides anew about those who wait, in their order, up to the first who still lacks nothing but a lease. */
  #serveWaiting(): void {
    if (this.#state.expireLeases(this.#parts.now())) this.#planWrite();
    for (let first = this.#waiting.first; first !== undefined; first = this.#waiting.first) {
      const verdict = this.#decide(first.request);
      if (verdict.kind === "refused" && verdict.cause === "concurrency") return;
      this.#waiting.removeFirst();
      first.settle(verdict);
    }
  }

  /** One timer at a time, for the first who waits. */
  #planWaitEnd(): void {
    const untilMs = this.#waiting.firstUntilMs;
    if (untilMs === undefined || this.#isWaitEndPlanned) return;
    this.#isWaitEndPlanned = true;
    this.#parts.later(Math.max(0, untilMs - this.#parts.now()), () => {
      this.#isWaitEndPlanned = false;
      this.#serveWaiting();
      for (const { request, settle } of this.#waiting.expire(this.#parts.now())) settle(this.#decide(request));
      this.#planWaitEnd();
    });
  }

  #planWrite(): void {
    if (this.#isWritePlanned) return;
    this.#isWritePlanned = true;
    this.#parts.later(WRITE_DELAY_MS, () => {
      this.#isWritePlanned = false;
      // A store that fails is tried again with the next round, and nothing of the changes is dropped.
      this.#write().catch((error: unknown) => {
        this.#parts.logError("key_state_not_written", causeOf(error));
        this.#planWrite();
      });
    });
  }

  /** Writes what has changed, and sees that an alarm comes for what may be lost. */
  async #write(): Promise<void> {
    const expired = this.#state.countExpiredLeases();
    if (expired > 0) this.#parts.count?.("leases_expired_total", expired);
    const changes = this.#state.changes();
    try {
      await this.#parts.store.putChanges(changes);
      const nextMs = this.#state.nextLostMs(this.#lostAfterMs);
      if (nextMs === undefined || this.#isInAlarm) return;
      const alarmAtMs = Math.max(nextMs, this.#earliestAlarmMs, this.#parts.now());
      // A later one is not worth a write: an alarm that finds nothing sets the next.
      if (this.#alarmAtMs !== undefined && this.#alarmAtMs <= alarmAtMs) return;
      await this.#parts.store.setAlarm(alarmAtMs);
      this.#alarmAtMs = alarmAtMs;
    } catch (error) {
      this.#state.unstored(changes);
      throw error;
    }
  }
}

const refusalOf = ({ cause, retryAfterMs }: LimitHit): Refusal => ({
  kind: "refused",
  code: cause === "monthly_budget" && retryAfterMs === undefined ? "insufficient_quota" : "rate_limit_exceeded",
  cause,
  ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
});
