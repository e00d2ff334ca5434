/**
 * Reads the one secret out of an Authorization field (RFC 9110 section 11.4, RFC 6750 section 2.1).
 *
 * Pure. It does not say whether the secret is right. Anything but exactly one well-formed secret is a fault: a lenient reader
 * lets a client smuggle a second credential past the side that looks at the first one only.
 */

/** Longer than any key we make; bounds what is hashed for a stranger. */
export const MAX_SECRET_CHARS = 256;

export type CredentialFault = "missing" | "malformed" | "wrong_scheme" | "two_credentials";
export type Credential =
  | { readonly ok: true; readonly secret: string }
  | { readonly ok: false; readonly fault: CredentialFault };

const fault = (reason: CredentialFault): Credential => ({ ok: false, fault: reason });

/** Checks a bare secret: token68 of RFC 9110, so no space and no comma (which two joined header lines would have). */
export const readSecret = (value: string): Credential =>
  value.length <= MAX_SECRET_CHARS && /^[A-Za-z0-9._~+/-]+=*$/.test(value)
    ? { ok: true, secret: value }
    : fault(value.includes(",") ? "two_credentials" : "malformed");

/**
 * Reads `Bearer <secret>`, the scheme in any case.
 * `value` is the whole field, several lines of it joined by commas, or null if there is none.
 */
export const readBearer = (value: string | null): Credential => {
  if (value === null) return fault("missing");
  const match = /^([A-Za-z]+)(?: +(.*))?$/.exec(value.trim());
  if (match === null) return fault("malformed");
  if (match[1]?.toLowerCase() !== "bearer") return fault("wrong_scheme");
  return readSecret(match[2] ?? "");
};
