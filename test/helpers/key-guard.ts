/** Definitions and requests of one key, for tests of its guard. */
import type { KeyDefinition, KeyLimits, TakeRequest } from "../../edge/src/admit/key-guard-types.ts";

/** The clock of these tests, Unix ms; in the middle of a month. */
export const nowMs = 1_800_000_000_000;
export const secretSha256 = "a".repeat(64);

export const noLimits: KeyLimits = {
  requestsPerMinute: null,
  tokensPerMinute: null,
  concurrency: null,
  tokensPerMonth: null,
};

/** A key that may do everything, without limits unless told otherwise. */
export const keyDefinition = (changed: Partial<KeyDefinition> = {}): KeyDefinition => ({
  keyId: "0".repeat(32),
  tenantId: "tenant",
  secrets: [{ sha256: secretSha256, expiresAtMs: null }],
  scopes: ["chat", "models", "diagnostics"],
  models: null,
  limits: noLimits,
  expiresAtMs: null,
  revokedAtMs: null,
  ...changed,
});

let requests = 0;

/** A chat request with a fresh id and an estimate of 100 tokens. */
export const takeRequest = (changed: Partial<TakeRequest> = {}): TakeRequest => {
  requests += 1;
  return { secretSha256, requestId: `req_${requests}`, scope: "chat", model: "m", estimatedTokens: 100, ...changed };
};
