/**
 * What one key has used and is using: both rate windows, leases, open requests, the month's budget, as one thing that takes all or
 * nothing. Pure: `nowMs` is passed in, and nothing is stored; `changes()` says what is to be.
 *
 * It checks no secret, and it lets nobody wait: that a lease is all there is in the way is one of its answers.
 */
import { monthOf } from "../calendar.ts";
import { Budget, type MonthTokens } from "./budget.ts";
import type { BookedTurn, KeyLimits, OpenRequest, RateLimitState, RequestEnd, TakeRequest } from "./key-guard-types.ts";
import { Leases } from "./leases.ts";
import { isSettled, MAX_OPEN_REQUESTS, MAX_TURNS_OF_REQUEST, type Reservation, Reservations } from "./reservations.ts";
import { SlidingWindow, type WindowSnapshot } from "./sliding-window.ts";

/** What a client is told to wait for a lease, or for tokens of the month that others have reserved. */
export const LEASE_RETRY_MS = 1000;
/** Request ids that are remembered after their end, so that a renewal that comes late brings none back. */
export const MAX_CLOSED_REQUESTS = 1000;

/** A reservation with its lease's end, null without a lease; as it is stored. */
export type StoredRequest = Reservation & { readonly leaseEndMs: number | null };

/** All that is written behind; the budget is stored apart, at once. */
export interface StoredState {
  readonly requestWindow: WindowSnapshot;
  readonly tokenWindow: WindowSnapshot;
  readonly requests: readonly StoredRequest[];
  readonly monthTokens: MonthTokens;
}

export interface StateChanges {
  /** Undefined when neither has changed. */
  readonly windows: { readonly requests: WindowSnapshot; readonly tokens: WindowSnapshot } | undefined;
  readonly changed: readonly StoredRequest[];
  /** Ids of requests that were stored and are closed. */
  readonly closed: readonly string[];
}

/** The limit that a taker has run into. */
export interface LimitHit {
  readonly cause: "requests_per_minute" | "tokens_per_minute" | "concurrency" | "monthly_budget" | "open_requests";
  /** Undefined where waiting does not help. */
  readonly retryAfterMs: number | undefined;
}

export class KeyState {
  readonly #requestWindow: SlidingWindow;
  readonly #tokenWindow: SlidingWindow;
  readonly #leases: Leases;
  readonly #open: Reservations;
  readonly #budget: Budget;
  readonly #recentlyClosed = new Set<string>();
  #windowsChanged = false;
  #expiredLeases = 0;
  readonly #changedIds = new Set<string>();
  readonly #storedIds: Set<string>;

  constructor(stored?: StoredState) {
    const requests = stored?.requests ?? [];
    this.#requestWindow = new SlidingWindow(stored?.requestWindow);
    this.#tokenWindow = new SlidingWindow(stored?.tokenWindow);
    this.#leases = new Leases(
      requests.flatMap(({ requestId, leaseEndMs }) => (leaseEndMs === null ? [] : [[requestId, leaseEndMs] as const])),
    );
    this.#open = new Reservations(requests.map(({ leaseEndMs: _, ...reservation }) => reservation));
    this.#budget = new Budget(stored?.monthTokens);
    this.#storedIds = new Set(requests.map(({ requestId }) => requestId));
  }

  get leases(): number {
    return this.#leases.count;
  }

  /** Takes what `request` needs under all limits, or nothing and says which one is in the way; the lease is looked at last. */
  take(limits: KeyLimits, request: TakeRequest, nowMs: number): LimitHit | undefined {
    this.expireLeases(nowMs);
    // Told twice, taken once.
    if (this.#open.get(request.requestId) !== undefined) return undefined;
    const hit = this.#firstLimitHit(limits, request.estimatedTokens, nowMs);
    if (hit !== undefined) return hit;

    if (limits.requestsPerMinute !== null) this.#requestWindow.take(1, nowMs);
    const tokenSlot = limits.tokensPerMinute === null ? null : this.#tokenWindow.take(request.estimatedTokens, nowMs);
    this.#windowsChanged ||= limits.requestsPerMinute !== null || limits.tokensPerMinute !== null;
    this.#begin(request, tokenSlot, nowMs);
    return undefined;
  }

  /** Prolongs the lease of a running request, and restores one that this state has never heard of. */
  renew({ requestId, estimatedTokens }: Pick<TakeRequest, "requestId" | "estimatedTokens">, nowMs: number): void {
    this.expireLeases(nowMs);
    const known = this.#open.get(requestId);
    // One that was released does not run again; one whose lease ran out, or that an agent has given up, may.
    if (this.#recentlyClosed.has(requestId) || (known !== undefined && known.agent !== null)) return;
    if (known === undefined) {
      if (this.#open.count < MAX_OPEN_REQUESTS) this.#begin({ requestId, estimatedTokens }, null, nowMs);
      return;
    }
    this.#leases.hold(requestId, nowMs);
    this.#change({ ...known, endedAtMs: null });
  }

  /** Frees the lease; the request is closed too, unless an agent's record is still to be waited for. */
  release({ requestId, agent }: RequestEnd, nowMs: number): void {
    const known = this.#open.get(requestId);
    this.#leases.free(requestId);
    if (known === undefined || known.agent !== null) return;
    if (agent === null || known.estimatedTokens === 0 || known.endedBy.includes(agent)) this.#close(known, nowMs);
    else this.#change({ ...known, agent, endedAtMs: known.endedAtMs ?? nowMs });
  }

  /** Takes the sums of months over; true if they are to be stored. */
  learnMonths(sums: MonthTokens, nowMs: number): boolean {
    return this.#budget.learn(sums, nowMs);
  }

  /**
   * Books a turn of a request that is still open; a second time changes nothing. A turn that ends its request frees the lease. The
   * request is closed once its release has named the same agent: until then another may be running it, after a failover.
   */
  settle({ requestId, agentId, turnId, tokens, endsRequest }: BookedTurn, nowMs: number): void {
    const known = this.#open.get(requestId);
    if (known === undefined) return;
    let next = known;
    const turn = `${agentId}/${turnId}`;
    if (!known.turns.includes(turn) && known.turns.length < MAX_TURNS_OF_REQUEST) {
      next = { ...next, turns: [...known.turns, turn], bookedTokens: known.bookedTokens + tokens };
    }
    if (endsRequest && !known.endedBy.includes(agentId)) next = { ...next, endedBy: [...known.endedBy, agentId] };
    if (next === known) return;
    if (endsRequest && known.agent === null) {
      this.#leases.free(requestId);
      next = { ...next, endedAtMs: known.endedAtMs ?? nowMs };
    }
    if (next.agent !== null && isSettled(next)) this.#close(next, nowMs);
    else this.#change(next.endedBy.length > 0 ? this.#recount(next, nowMs) : next);
  }

  /** Ends the leases whose time is over; true if there were any. */
  expireLeases(nowMs: number): boolean {
    const expired = this.#leases.expire(nowMs);
    this.#expiredLeases += expired.length;
    for (const { requestId, endedAtMs } of expired) {
      const known = this.#open.get(requestId);
      if (known === undefined) continue;
      if (known.estimatedTokens === 0) this.#close(known, nowMs);
      else this.#change({ ...known, endedAtMs });
    }
    return expired.length > 0;
  }

  /** How many leases have ended by themselves since the last call. */
  countExpiredLeases(): number {
    const expired = this.#expiredLeases;
    this.#expiredLeases = 0;
    return expired;
  }

  /** Requests to close as lost now, oldest first. They stay open until closeLost(). */
  lost(nowMs: number, lostAfterMs: number, atMost: number): Reservation[] {
    this.expireLeases(nowMs);
    const due = this.#open.due(nowMs, lostAfterMs, atMost);
    // Their records came; what never came is the release of a worker that died.
    for (const settled of due.filter(isSettled)) this.#close(settled, nowMs);
    return due.filter((reservation) => !isSettled(reservation));
  }

  closeLost(requestIds: readonly string[]): void {
    for (const requestId of requestIds) this.#forget(requestId);
  }

  /** When lost() can have something next, Unix ms; undefined while nothing is open. A moment that is past means now. */
  nextLostMs(lostAfterMs: number): number | undefined {
    const ended = this.#open.firstDueMs(lostAfterMs);
    const lease = this.#leases.firstEndMs;
    if (lease === undefined) return ended;
    return Math.min(lease + lostAfterMs, ended ?? Number.POSITIVE_INFINITY);
  }

  rateLimits(limits: KeyLimits, nowMs: number): RateLimitState {
    const stateOf = (window: SlidingWindow, limit: number | null) =>
      limit === null
        ? null
        : { limit, remaining: Math.max(0, limit - window.used(nowMs)), resetMs: window.resetMs(nowMs) };
    return {
      requests: stateOf(this.#requestWindow, limits.requestsPerMinute),
      tokens: stateOf(this.#tokenWindow, limits.tokensPerMinute),
    };
  }

  month(nowMs: number): { readonly month: string; readonly monthTokens: number } {
    return { month: monthOf(nowMs), monthTokens: this.#budget.used(nowMs) };
  }

  /** The open requests, the longest ended first; at most `atMost`. */
  openRequests(atMost: number): OpenRequest[] {
    const requests: OpenRequest[] = [];
    for (const { requestId, startedAtMs, estimatedTokens, agent } of this.#open.all()) {
      if (requests.length >= atMost) break;
      const leased = this.#leases.endMs(requestId) !== undefined;
      requests.push({ requestId, startedAtMs, estimatedTokens, leased, agent });
    }
    return requests;
  }

  storedMonths(): MonthTokens {
    return this.#budget.stored();
  }

  /** What has changed since the last call. When it could not be stored, unstored() puts it back. */
  changes(): StateChanges {
    const changed: StoredRequest[] = [];
    const closed: string[] = [];
    for (const requestId of this.#changedIds) {
      const known = this.#open.get(requestId);
      if (known !== undefined) {
        changed.push({ ...known, leaseEndMs: this.#leases.endMs(requestId) ?? null });
        this.#storedIds.add(requestId);
      } else if (this.#storedIds.delete(requestId)) closed.push(requestId);
    }
    const windows = this.#windowsChanged
      ? { requests: this.#requestWindow.snapshot(), tokens: this.#tokenWindow.snapshot() }
      : undefined;
    this.#changedIds.clear();
    this.#windowsChanged = false;
    return { windows, changed, closed };
  }

  unstored({ windows, changed, closed }: StateChanges): void {
    this.#windowsChanged ||= windows !== undefined;
    for (const { requestId } of changed) this.#changedIds.add(requestId);
    for (const requestId of closed) {
      this.#changedIds.add(requestId);
      this.#storedIds.add(requestId);
    }
  }

  #firstLimitHit(limits: KeyLimits, tokens: number, nowMs: number): LimitHit | undefined {
    const { requestsPerMinute, tokensPerMinute, tokensPerMonth, concurrency } = limits;
    if (this.#open.count >= MAX_OPEN_REQUESTS) return { cause: "open_requests", retryAfterMs: LEASE_RETRY_MS };
    if (requestsPerMinute !== null) {
      const retryAfterMs = this.#requestWindow.waitMs(1, requestsPerMinute, nowMs);
      if (retryAfterMs !== 0) return { cause: "requests_per_minute", retryAfterMs };
    }
    if (tokensPerMinute !== null && tokens > 0) {
      const retryAfterMs = this.#tokenWindow.waitMs(tokens, tokensPerMinute, nowMs);
      if (retryAfterMs !== 0) return { cause: "tokens_per_minute", retryAfterMs };
    }
    if (tokensPerMonth !== null && tokens > 0) {
      const left = tokensPerMonth - this.#budget.used(nowMs);
      if (tokens > left) return { cause: "monthly_budget", retryAfterMs: undefined };
      // What the others have reserved comes back in part: they seldom use all of it.
      if (tokens > left - this.#open.reservedTokens) return { cause: "monthly_budget", retryAfterMs: LEASE_RETRY_MS };
    }
    if (concurrency !== null && this.#leases.count >= concurrency) {
      return { cause: "concurrency", retryAfterMs: LEASE_RETRY_MS };
    }
    return undefined;
  }

  #begin(
    { requestId, estimatedTokens }: Pick<TakeRequest, "requestId" | "estimatedTokens">,
    tokenSlot: number | null,
    nowMs: number,
  ): void {
    this.#leases.hold(requestId, nowMs);
    this.#change({
      requestId,
      startedAtMs: nowMs,
      estimatedTokens,
      tokenSlot,
      slotTokens: estimatedTokens,
      agent: null,
      endedAtMs: null,
      turns: [],
      bookedTokens: 0,
      endedBy: [],
    });
  }

  #change(reservation: Reservation): void {
    this.#open.add(reservation);
    this.#changedIds.add(reservation.requestId);
  }

  /** Puts what was booked into the token window in the place of what it holds for the request. */
  #recount(reservation: Reservation, nowMs: number): Reservation {
    const { tokenSlot, slotTokens, bookedTokens } = reservation;
    if (tokenSlot === null || slotTokens === bookedTokens) return reservation;
    this.#tokenWindow.adjust(tokenSlot, bookedTokens - slotTokens, nowMs);
    this.#windowsChanged = true;
    return { ...reservation, slotTokens: bookedTokens };
  }

  #close(reservation: Reservation, nowMs: number): void {
    this.#recount(reservation, nowMs);
    this.#forget(reservation.requestId);
  }

  #forget(requestId: string): void {
    this.#open.remove(requestId);
    this.#leases.free(requestId);
    this.#changedIds.add(requestId);
    this.#recentlyClosed.add(requestId);
    if (this.#recentlyClosed.size <= MAX_CLOSED_REQUESTS) return;
    const [oldest] = this.#recentlyClosed;
    if (oldest !== undefined) this.#recentlyClosed.delete(oldest);
  }
}
