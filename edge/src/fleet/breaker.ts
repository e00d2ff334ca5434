/**
 * The circuit breaker of one agent: after several failures nothing is sent to it for a while, then one request tries. Pure: a state goes in
 * and a state comes out; `nowMs` is passed in.
 *
 * Failures are weighed against successes, not counted in a row: an agent that fails every other request is broken too. What counts as a
 * failure is the caller's to say (judge-status.ts, forward.ts). It is kept per isolate: it may be wrong for a while, and costs nobody
 * a message.
 */

/** Weight at which it opens: a failure adds 1, a success takes 1 away. */
export const OPEN_AT = 5;
/** After so long without a failure the weight is forgotten. */
export const FORGET_MS = 30_000;
/** How long it stays open, ms. */
export const OPEN_MS = 5_000;
/** A probe that has not told its end by then does not count any more: the request that made it may have been cut off. */
export const PROBE_MS = 30_000;

export interface Breaker {
  /** 0 to OPEN_AT. */
  readonly weight: number;
  readonly lastFailureMs: number;
  /** Open until then; undefined: closed. */
  readonly openUntilMs: number | undefined;
  /** When the probe of a half-open one began; undefined: none is on its way. */
  readonly probeSinceMs: number | undefined;
}

export const CLOSED: Breaker = { weight: 0, lastFailureMs: 0, openUntilMs: undefined, probeSinceMs: undefined };

/** closed: anybody. half-open: one request, and only after `beginProbe`. open: nobody. */
export type BreakerState = "closed" | "half-open" | "open";

export const breakerState = ({ openUntilMs, probeSinceMs }: Breaker, nowMs: number): BreakerState => {
  if (openUntilMs === undefined) return "closed";
  if (nowMs < openUntilMs) return "open";
  return probeSinceMs !== undefined && nowMs < probeSinceMs + PROBE_MS ? "open" : "half-open";
};

/** A request goes to a half-open one; changes nothing otherwise. */
export const beginProbe = (breaker: Breaker, nowMs: number): Breaker =>
  breakerState(breaker, nowMs) === "half-open" ? { ...breaker, probeSinceMs: nowMs } : breaker;

/** A request to it failed. */
export const noteFailure = (breaker: Breaker, nowMs: number, openMs: number = OPEN_MS): Breaker => {
  const { openUntilMs, lastFailureMs } = breaker;
  // What was sent before it opened says nothing new.
  if (openUntilMs !== undefined && nowMs < openUntilMs) return breaker;
  const before = nowMs - lastFailureMs >= FORGET_MS ? 0 : breaker.weight;
  const weight = Math.min(OPEN_AT, before + 1);
  const opens = openUntilMs !== undefined || weight >= OPEN_AT;
  return {
    weight,
    lastFailureMs: nowMs,
    openUntilMs: opens ? nowMs + openMs : undefined,
    probeSinceMs: undefined,
  };
};

/**
 * Response headers came from it, and a stream may follow for minutes. It closes a half-open one on probation: the next failure opens it
 * again. One that is still open stays so, for the request was sent before.
 */
export const noteHeaders = (breaker: Breaker, nowMs: number): Breaker =>
  breaker.openUntilMs === undefined || nowMs < breaker.openUntilMs
    ? breaker
    : { weight: OPEN_AT - 1, lastFailureMs: nowMs, openUntilMs: undefined, probeSinceMs: undefined };

/** A request to it went well, to its end. */
export const noteSuccess = (breaker: Breaker): Breaker =>
  breaker.openUntilMs === undefined && breaker.weight > 0 ? { ...breaker, weight: breaker.weight - 1 } : breaker;

/** A probe ended without saying anything about the agent: its client went away. */
export const endProbe = (breaker: Breaker): Breaker => ({ ...breaker, probeSinceMs: undefined });
