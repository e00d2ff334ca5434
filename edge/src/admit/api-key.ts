/**
 * Finds the one API key in a request: `Authorization: Bearer` or `x-api-key`. Pure.
 *
 * Two different keys are a fault, not a choice: whoever looks at the other one would bill somebody else.
 */
import { type Credential, readBearer, readSecret } from "@lockgate/shared-types";

/** Reads the key; both headers may be there if they agree. */
export const readApiKey = (headers: Headers): Credential => {
  const authorization = headers.get("authorization");
  const bare = headers.get("x-api-key");
  if (bare === null) return readBearer(authorization);
  const fromBare = readSecret(bare.trim());
  if (authorization === null || !fromBare.ok) return fromBare;
  const fromBearer = readBearer(authorization);
  if (!fromBearer.ok || fromBearer.secret === fromBare.secret) return fromBearer;
  return { ok: false, fault: "two_credentials" };
};
