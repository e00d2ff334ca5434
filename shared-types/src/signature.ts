/**
 * The signature between edge and agent: HTTP Message Signatures (RFC 9421) with hmac-sha256, and Content-Digest (RFC 9530).
 *
 * This file holds what both sides must agree on, and the signing. Verification is verify-request.ts.
 * No clock and no randomness: `nowMs` and the nonce are passed in.
 */
import { signatureBase } from "./signature-base.ts";
import { type LockgateHeaders, lockgateHeaderFields } from "./signed-headers.ts";

/** The dictionary key of ours in Signature and Signature-Input. */
export const SIGNATURE_LABEL = "lockgate";
/** RFC 9421 section 3.3.3. */
export const SIGNATURE_ALGORITHM = "hmac-sha256";
/** `expires` is `created` plus this. */
export const SIGNATURE_LIFETIME_S = 60;
/** How far `created` may lie from the agent's clock, to either side. */
export const CLOCK_SKEW_S = 60;
/** Random bytes in a nonce: no two edges ever draw the same one. */
export const NONCE_BYTES = 16;

/** Covered besides every x-lockgate-* header, in this order. */
export const signedComponents: readonly string[] = ["@method", "@path", "@query", "content-digest"];
/** Parameters that a signature must carry. */
export const signatureParameters: readonly string[] = ["created", "expires", "nonce", "keyid", "alg"];

const toBase64 = (bytes: Uint8Array): string => btoa(String.fromCharCode(...bytes));

/** Encodes random bytes as a nonce: base64url, no padding. */
export const encodeNonce = (bytes: Uint8Array): string =>
  toBase64(bytes).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

/** The Content-Digest field of a body, `sha-256=:<base64>:` (RFC 9530 section 2). */
export const contentDigest = async (body: Uint8Array<ArrayBuffer>): Promise<string> =>
  `sha-256=:${toBase64(new Uint8Array(await crypto.subtle.digest("SHA-256", body)))}:`;

/** A secret made ready for use. */
export interface SigningKey {
  readonly keyId: string;
  /** Signs bytes with HMAC-SHA-256. */
  readonly sign: (data: Uint8Array) => Promise<Uint8Array>;
  /** Whether a signature is that of these bytes; compares in constant time. */
  readonly verify: (data: Uint8Array, signature: Uint8Array) => Promise<boolean>;
}

/** Imports a raw secret once, so that a request only signs or verifies. */
export const importSigningKey = async (keyId: string, secret: Uint8Array<ArrayBuffer>): Promise<SigningKey> => {
  const key = await crypto.subtle.importKey("raw", secret, { name: "HMAC", hash: "SHA-256" }, false, [
    "sign",
    "verify",
  ]);
  return {
    keyId,
    sign: async (data) => new Uint8Array(await crypto.subtle.sign("HMAC", key, Uint8Array.from(data))),
    verify: async (data, signature) =>
      crypto.subtle.verify("HMAC", key, Uint8Array.from(signature), Uint8Array.from(data)),
  };
};

export interface RequestToSign {
  readonly method: string;
  /** Absolute; only its path and query are signed, so a tunnel may change the host. */
  readonly url: string;
  /** From contentDigest(). */
  readonly contentDigest: string;
  readonly lockgate: LockgateHeaders;
}

/**
 * Signs one attempt. Every attempt needs a nonce of its own: an agent takes each once.
 * Returns all header fields that the request needs: the x-lockgate-* ones, content-digest, signature-input, signature.
 */
export const signRequest = async (
  request: RequestToSign,
  key: SigningKey,
  nowMs: number,
  nonce: string,
): Promise<[name: string, value: string][]> => {
  const fields: [string, string][] = [
    ["content-digest", request.contentDigest],
    ...lockgateHeaderFields(request.lockgate),
  ];
  const createdS = Math.floor(nowMs / 1000);
  const { bytes, parameters } = signatureBase({
    method: request.method,
    url: request.url,
    fields,
    createdS,
    expiresS: createdS + SIGNATURE_LIFETIME_S,
    nonce,
    keyId: key.keyId,
    algorithm: SIGNATURE_ALGORITHM,
  });
  const signature = toBase64(await key.sign(bytes));
  return [
    ...fields,
    ["signature-input", `${SIGNATURE_LABEL}=${parameters}`],
    ["signature", `${SIGNATURE_LABEL}=:${signature}:`],
  ];
};
