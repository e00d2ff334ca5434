/**
 * Lets an identified request in, or says why not: one call to the key's guard, which verifies the secret and takes all limits.
 *
 * Nothing is cached here: between this isolate and the guard a key could be revoked. A guard that cannot be asked lets nobody in.
 */
import { causeOf } from "../cause-of.ts";
import { errorResponse } from "../errors.ts";
import { logError, logInfo, type RequestNames } from "../log.ts";
import { count } from "../metrics/count.ts";
import type { Identity } from "./identify.ts";
import type { KeyGuardRpc, RateLimitState, TakeRequest, TakeVerdict } from "./key-guard-types.ts";
import { type Lease, openLease, type Waits } from "./lease.ts";
import { rateLimitFields, retryFields } from "./rate-limit-headers.ts";

/** What a request needs; the model is the one that will be dispatched. */
export type Needs = Pick<TakeRequest, "scope" | "model" | "estimatedTokens">;

export type Admission =
  | {
      readonly kind: "admitted";
      readonly keyId: string;
      /** Hex; keeps one tenant's prefix cache apart from another's. */
      readonly tenantSalt: string;
      /** Whether the client may know where its request ran. */
      readonly diagnostics: boolean;
      readonly rateLimits: RateLimitState;
      /** To be ended in every case. */
      readonly lease: Lease;
    }
  | { readonly kind: "refused"; readonly response: Response };

/** What is needed of the bindings. */
export interface GuardBindings {
  readonly KEY_GUARDS: { getByName(name: string): Pick<KeyGuardRpc, "take" | "renew" | "release"> };
}

type Refusal = Extract<TakeVerdict, { kind: "refused" }>;

/** The answer to a refused request. Refused keys get no limits told: they look alike. */
export const refusalResponse = (refusal: Refusal, requestId: string): Response => {
  const { code, retryAfterMs, rateLimits } = refusal;
  const isLimit = code === "rate_limit_exceeded" || code === "insufficient_quota";
  return errorResponse(code, requestId, [
    ...(isLimit ? retryFields(retryAfterMs) : []),
    ...(isLimit && rateLimits !== undefined ? rateLimitFields(rateLimits) : []),
  ]);
};

/** Adds what x-ratelimit-* say to an answer whose headers can be changed. */
export const addRateLimits = (response: Response, rateLimits: RateLimitState): Response => {
  for (const [name, value] of rateLimitFields(rateLimits)) response.headers.set(name, value);
  return response;
};

/** Asks the guard of `identity`. */
export const admit = async (
  bindings: GuardBindings,
  waits: Waits,
  identity: Extract<Identity, { kind: "identified" }>,
  needs: Needs,
  names: RequestNames,
): Promise<Admission> => {
  const { keyId, secretSha256 } = identity;
  const { requestId } = names;
  const guard = () => bindings.KEY_GUARDS.getByName(keyId);
  // Before the call: a client that goes away during it must not leave a lease behind, nor must a call whose answer gets lost.
  const lease = openLease(waits, { keyId, requestId, estimatedTokens: needs.estimatedTokens, guard });
  let verdict: TakeVerdict;
  try {
    verdict = await guard().take({ secretSha256, requestId, ...needs });
  } catch (error) {
    count("guard_calls_total", ["take", "failed"]);
    count("refusals_total", ["guard_unreachable"]);
    // It may have taken, and only the answer got lost.
    void lease.ended(null);
    logError("guard_unreachable", { ...names, keyId, cause: causeOf(error) });
    return { kind: "refused", response: errorResponse("overloaded", requestId) };
  }
  count("guard_calls_total", ["take", "ok"]);
  if (verdict.kind === "refused") {
    count("refusals_total", [verdict.cause]);
    lease.dismiss();
    logInfo("refused", { ...names, keyId, cause: verdict.cause });
    return { kind: "refused", response: refusalResponse(verdict, requestId) };
  }
  const { tenantSalt, diagnostics, rateLimits } = verdict;
  return { kind: "admitted", keyId, tenantSalt, diagnostics, rateLimits, lease };
};
