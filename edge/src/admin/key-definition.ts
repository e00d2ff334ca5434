/** From what an operator asked for to what a key's guard keeps, and back. Pure. */
import type { KeyDefinition, KeyGuardView, KeyLimits, SecretHash } from "../admit/key-guard-types.ts";
import type { KeyChange, KeyDetails, KeyEntry, NewKey } from "./key-schemas.ts";

/** Secrets of one key that are taken at once: the new one, and those whose overlaps still run. */
export const MAX_SECRETS = 4;

type ApiLimits = KeyEntry["limits"];
type AskedLimits = { readonly [Name in keyof ApiLimits]?: ApiLimits[Name] | undefined };

const limitsOf = (limits: AskedLimits, before: KeyLimits | null): KeyLimits => {
  // Undefined leaves a limit as it was, null takes it away.
  const pick = (asked: number | null | undefined, was: number | null | undefined): number | null =>
    asked === undefined ? (was ?? null) : asked;
  return {
    requestsPerMinute: pick(limits.requests_per_minute, before?.requestsPerMinute),
    tokensPerMinute: pick(limits.tokens_per_minute, before?.tokensPerMinute),
    concurrency: pick(limits.concurrency, before?.concurrency),
    tokensPerMonth: pick(limits.tokens_per_month, before?.tokensPerMonth),
  };
};

const apiLimits = (limits: KeyLimits): ApiLimits => ({
  requests_per_minute: limits.requestsPerMinute,
  tokens_per_minute: limits.tokensPerMinute,
  concurrency: limits.concurrency,
  tokens_per_month: limits.tokensPerMonth,
});

/** The definition of a new key. */
export const newDefinition = (asked: NewKey, keyId: string, sha256: string): KeyDefinition => ({
  keyId,
  tenantId: asked.tenant,
  secrets: [{ sha256, expiresAtMs: null }],
  scopes: [...new Set(asked.scopes)],
  models: asked.models,
  limits: limitsOf(asked.limits, null),
  expiresAtMs: asked.expires_at_ms,
  revokedAtMs: null,
});

/** The directory's entry of a new key, pending. */
export const newEntry = (definition: KeyDefinition, name: string, nowMs: number): KeyEntry => ({
  ...comparable(definition),
  key_id: definition.keyId,
  tenant: definition.tenantId,
  name,
  state: "pending",
  revoked_at_ms: null,
  created_at_ms: nowMs,
  changed_at_ms: nowMs,
});

/** The definition with what the change names. */
export const changedDefinition = (before: KeyDefinition, change: KeyChange): KeyDefinition => ({
  ...before,
  scopes: change.scopes === undefined ? before.scopes : [...new Set(change.scopes)],
  models: change.models === undefined ? before.models : change.models,
  limits: limitsOf(change.limits ?? {}, before.limits),
  expiresAtMs: change.expires_at_ms === undefined ? before.expiresAtMs : change.expires_at_ms,
});

/** The secrets after a rotation: the new one, and those from before until the overlap is over or their own end, whichever is first. */
export const rotatedSecrets = (
  before: readonly SecretHash[],
  sha256: string,
  overlapMs: number,
  nowMs: number,
): readonly SecretHash[] => {
  const end = nowMs + overlapMs;
  const kept = before
    .map((secret) => ({ ...secret, expiresAtMs: Math.min(secret.expiresAtMs ?? end, end) }))
    .filter(({ expiresAtMs }) => expiresAtMs > nowMs);
  return [{ sha256, expiresAtMs: null }, ...kept];
};

/** What directory and guard both say of a key. */
const comparable = (definition: KeyDefinition) => ({
  scopes: [...definition.scopes],
  models: definition.models === null ? null : [...definition.models],
  limits: apiLimits(definition.limits),
  expires_at_ms: definition.expiresAtMs,
});

/** Whether the directory says what the guard goes by. */
export const agrees = (entry: KeyEntry, definition: KeyDefinition): boolean => {
  const { scopes, models, limits, expires_at_ms } = entry;
  return (
    JSON.stringify({ scopes, models, limits, expires_at_ms }) === JSON.stringify(comparable(definition)) &&
    entry.tenant === definition.tenantId &&
    entry.state === (definition.revokedAtMs === null ? "active" : "revoked")
  );
};

/** A definition as the audit log has it: no secret, no hash of one. */
export const auditedDefinition = (definition: KeyDefinition, name: string) => ({
  name,
  tenant: definition.tenantId,
  ...comparable(definition),
  secrets: definition.secrets.map(({ expiresAtMs }) => ({ expires_at_ms: expiresAtMs })),
  revoked_at_ms: definition.revokedAtMs,
});

const rateLimit = (state: { limit: number; remaining: number; resetMs: number } | null) =>
  state === null ? null : { limit: state.limit, remaining: state.remaining, reset_ms: state.resetMs };

/** A guard as the admin API shows it. */
export const shownGuard = (entry: KeyEntry, view: KeyGuardView): KeyDetails["guard"] => ({
  agrees: agrees(entry, view.definition),
  secrets: view.definition.secrets.map(({ expiresAtMs }) => ({ expires_at_ms: expiresAtMs })),
  leases: view.leases,
  waiting: view.waiting,
  month: view.month,
  month_tokens: view.monthTokens,
  rate_limits: { requests: rateLimit(view.rateLimits.requests), tokens: rateLimit(view.rateLimits.tokens) },
  open_requests: view.open.map((request) => ({
    request_id: request.requestId,
    started_at_ms: request.startedAtMs,
    estimated_tokens: request.estimatedTokens,
    leased: request.leased,
    agent: request.agent,
  })),
});
