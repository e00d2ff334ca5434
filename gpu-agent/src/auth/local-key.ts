/**
 * The local key: lets a person inside the network talk to the agent without an edge.
 *
 * Only its SHA-256 is kept, and digests are compared in constant time. It reads no configuration and logs nothing.
 */
import { createHash, timingSafeEqual } from "node:crypto";
import { type CredentialFault, readApiKey } from "@lockgate/shared-types";

export type LocalKeyVerdict =
  | { readonly ok: true }
  | { readonly ok: false; readonly reason: CredentialFault | "unknown_key" };

export type LocalKeyCheck = (authorization: string | null, apiKey: string | null) => LocalKeyVerdict;

const sha256 = (text: string): Buffer => createHash("sha256").update(text).digest();

/**
 * Makes the check for one key. Without a key configured (undefined) every credential is refused: there is no open mode.
 * The check takes the whole Authorization and x-api-key fields, several lines of one joined by commas, or null.
 */
export const createLocalKeyCheck = (localKey: string | undefined): LocalKeyCheck => {
  if (localKey === "") throw new RangeError("a local key must not be empty");
  const expected = localKey === undefined ? undefined : sha256(localKey);
  return (authorization, apiKey) => {
    const credential = readApiKey(authorization, apiKey);
    if (!credential.ok) return { ok: false, reason: credential.fault };
    if (expected === undefined || !timingSafeEqual(sha256(credential.secret), expected)) {
      return { ok: false, reason: "unknown_key" };
    }
    return { ok: true };
  };
};
