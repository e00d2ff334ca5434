/** How usage records are delivered: what an answer means, how long to wait, how much to send. Pure. */

/** accepted: booked. refused: never will be. retry: says nothing about the records. */
export type DeliveryVerdict = "accepted" | "refused" | "retry";

/**
 * Statuses by which an edge judges what was sent. All others that are no success, 401 and 403 (keys, clocks), 404 and 405 (an edge that is
 * older, or another server behind the URL), 408 and 429 among them, are about the way there: the records stay.
 */
const refusals: ReadonlySet<number> = new Set([400, 409, 410, 413, 415, 422]);

export const judgeStatus = (status: number): DeliveryVerdict => {
  if (status >= 200 && status < 300) return "accepted";
  return refusals.has(status) ? "refused" : "retry";
};

/** A code of Node or of the system, e.g. `ECONNREFUSED`, `ENOSPC`; what is no such word stays out of status and metrics. */
const systemCode = /^[A-Z][A-Z0-9_]{1,40}$/;

const codeOf = (error: unknown): string | undefined => {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return typeof code === "string" && systemCode.test(code) ? code : undefined;
};

/**
 * What kept records from being delivered, in one word: `http_503` for a status, `timeout`, the code of what lies under an error, else `failed`.
 * Few enough for a label: statuses, and what the system has codes for.
 */
export const deliveryErrorCode = (failure: unknown): string => {
  if (typeof failure === "number") return `http_${failure}`;
  if (!(failure instanceof Error)) return "failed";
  if (failure.name === "TimeoutError") return "timeout";
  return codeOf(failure.cause) ?? codeOf(failure) ?? "failed";
};

export const FIRST_RETRY_MS = 500;
export const MAX_RETRY_MS = 30_000;

/** Pause after the `failures`-th failure in a row (from 1), ms: doubled each time up to the bound, and spread over its upper half by `random` in [0, 1). */
export const retryDelayMs = (failures: number, random: number): number => {
  const full = Math.min(MAX_RETRY_MS, FIRST_RETRY_MS * 2 ** Math.min(failures - 1, 16));
  return full / 2 + (full / 2) * random;
};

/**
 * Most records of the next batch, after `sent` went under the bound `bound`: a refused batch is halved until the one at fault stands alone,
 * and once that is dealt with the bound grows back.
 */
export const nextBatchBound = (bound: number, sent: number, verdict: DeliveryVerdict, max: number): number => {
  if (verdict === "retry") return bound;
  return verdict === "refused" && sent > 1 ? Math.floor(sent / 2) : Math.min(max, bound * 2);
};
