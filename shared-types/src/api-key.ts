/**
 * Finds the one API key in a request: `Authorization: Bearer` or `x-api-key`. Pure.
 *
 * Two different keys are a fault, not a choice: whoever looks at the other one would bill somebody else.
 */
import { type Credential, readBearer, readSecret } from "./bearer-credential.ts";

/** Reads the key from the two fields (several lines of one joined by commas; null for none); both may be there if they agree. */
export const readApiKey = (authorization: string | null, bare: string | null): Credential => {
  if (bare === null) return readBearer(authorization);
  const fromBare = readSecret(bare.trim());
  if (authorization === null || !fromBare.ok) return fromBare;
  const fromBearer = readBearer(authorization);
  if (!fromBearer.ok || fromBearer.secret === fromBare.secret) return fromBearer;
  return { ok: false, fault: "two_credentials" };
};
