/**
 * Whether a key may do what is asked, limits aside. Pure; `nowMs` is passed in.
 *
 * The secret comes first: who does not have it learns nothing about the key, not even that it was revoked.
 */
import { equalInConstantTime } from "./digest.ts";
import type { KeyDefinition, TakeRequest, TakeVerdict } from "./key-guard-types.ts";

export type Refusal = Extract<TakeVerdict, { kind: "refused" }>;

/** What a key that was never defined gets. */
export const noSuchKey: Refusal = { kind: "refused", code: "invalid_api_key", cause: "no_such_key" };

const isOver = (endMs: number | null, nowMs: number): boolean => endMs !== null && endMs <= nowMs;

/** Why not; undefined if it may. */
export const checkKey = (key: KeyDefinition, request: TakeRequest, nowMs: number): Refusal | undefined => {
  let secret: KeyDefinition["secrets"][number] | undefined;
  for (const candidate of key.secrets)
    if (equalInConstantTime(candidate.sha256, request.secretSha256)) secret = candidate;
  if (secret === undefined) return { kind: "refused", code: "invalid_api_key", cause: "wrong_secret" };
  // Whatever the time says: the clock of whoever revoked may be ahead of this one's.
  if (key.revokedAtMs !== null) return { kind: "refused", code: "invalid_api_key", cause: "revoked" };
  if (isOver(secret.expiresAtMs, nowMs) || isOver(key.expiresAtMs, nowMs)) {
    return { kind: "refused", code: "invalid_api_key", cause: "expired" };
  }
  if (!key.scopes.includes(request.scope)) return { kind: "refused", code: "permission_denied", cause: "scope" };
  if (request.model !== null && key.models !== null && !key.models.includes(request.model)) {
    return { kind: "refused", code: "model_not_found", cause: "model" };
  }
  return undefined;
};
