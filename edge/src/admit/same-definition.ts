/** Whether two definitions of a key say the same, in whatever order their fields came. Pure. */
import type { KeyDefinition } from "./key-guard-types.ts";

const textOf = ({
  keyId,
  tenantId,
  secrets,
  scopes,
  models,
  limits,
  expiresAtMs,
  revokedAtMs,
}: KeyDefinition): string =>
  JSON.stringify([
    keyId,
    tenantId,
    secrets.map((secret) => [secret.sha256, secret.expiresAtMs]),
    scopes,
    models,
    [limits.requestsPerMinute, limits.tokensPerMinute, limits.concurrency, limits.tokensPerMonth],
    expiresAtMs,
    revokedAtMs,
  ]);

/** Null stands for a key that was never defined. */
export const isSameDefinition = (left: KeyDefinition | null, right: KeyDefinition | null): boolean =>
  left === null || right === null ? left === right : textOf(left) === textOf(right);
