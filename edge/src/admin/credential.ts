/**
 * Who may use the admin API: whoever has the one token whose SHA-256 is ADMIN_TOKEN_HASH. Pure.
 *
 * It is a credential of its own: no API key opens anything here. Without the secret there is no admin API at all, never an open one.
 */
import { readBearer } from "@lockgate/shared-types";
import { equalInConstantTime, sha256Hex } from "../admit/digest.ts";

/** Hex characters of the hash that name a credential in the audit log: enough to tell credentials apart, no help to a guesser. */
const FINGERPRINT_CHARS = 12;

export type AdminAccess =
  | { readonly kind: "allowed"; readonly actor: string }
  /** absent: there is no admin API here. misconfigured: nor here, and somebody should know. */
  | { readonly kind: "absent" | "misconfigured" }
  | { readonly kind: "refused"; readonly cause: string };

/** Judges an Authorization field; `tokenHash` is the secret ADMIN_TOKEN_HASH. */
export const adminAccess = async (
  tokenHash: string | undefined,
  authorization: string | null,
): Promise<AdminAccess> => {
  if (tokenHash === undefined || tokenHash === "") return { kind: "absent" };
  if (!/^[0-9a-f]{64}$/.test(tokenHash)) return { kind: "misconfigured" };
  const credential = readBearer(authorization);
  if (!credential.ok) return { kind: "refused", cause: credential.fault };
  if (!equalInConstantTime(await sha256Hex(credential.secret), tokenHash)) {
    return { kind: "refused", cause: "unknown_credential" };
  }
  return { kind: "allowed", actor: `admin-${tokenHash.slice(0, FINGERPRINT_CHARS)}` };
};
