/**
 * Decides whether a message was signed by somebody who shares a key with us (RFC 9421, RFC 9530): an edge's request at an agent, an
 * agent's message at the edge. One implementation for both; the MAC is passed in, since Node and the edge's runtime have their own.
 *
 * It judges the head alone, so that a stranger cannot make anybody buffer a body. Whoever calls it takes the nonce once and compares the
 * body with the signed digest. Every refusal looks alike outside; `reason` and `detail` are for the log alone.
 * Pure: no socket, no clock and no memory of its own.
 */
import { isSignatureError, type SignatureErrorCode, type Verifier, verifySignature } from "http-message-sig";
import type { NonceVerdict } from "./nonce-set.ts";
import {
  CLOCK_SKEW_S,
  SIGNATURE_ALGORITHM,
  SIGNATURE_LABEL,
  signatureParameters,
  signedComponents,
} from "./signature.ts";
import {
  isLockgateHeader,
  type LockgateHeaders,
  parseLockgateHeaders,
  requiredLockgateHeaders,
} from "./signed-headers.ts";

/** A signature is acceptable from `created` - skew to `created` + skew on our clock: nobody can send it again after twice that. */
export const NONCE_RETENTION_MS = 2 * CLOCK_SKEW_S * 1000;
/** What of a library's message goes to the log: it may quote the stranger. */
const MAX_DETAIL_CHARS = 160;

export type RefusalReason =
  | "missing_signature"
  | "malformed"
  | "unknown_key"
  | "policy"
  | "bad_mac"
  | "bad_headers"
  | "bad_nonce"
  | "before_start"
  | "replayed"
  | "nonces_full";

/** Header fields as pairs: a Headers object, or Node's rawHeaders in twos. Never Node's `headers`, which drops doubles. */
export type HeaderFields = Iterable<readonly [name: string, value: string]>;

/** Whether `signature` is the HMAC-SHA-256 of `data` under one key; compares in constant time. */
export type MacCheck = (data: Uint8Array, signature: Uint8Array) => boolean | Promise<boolean>;

/** A head whose signature is good. Its nonce is still to be taken. */
export interface SignedHead {
  readonly ok: true;
  /** The signing key's id. */
  readonly keyId: string;
  /** `sha-256=:<base64>:`, as signed; the body must have it. */
  readonly contentDigest: string;
  readonly lockgate: LockgateHeaders;
  /** The nonce with the key's id: what is to be taken once. */
  readonly nonce: string;
  /** Unix time, s. */
  readonly createdS: number;
}
export interface HeadRefusal {
  readonly ok: false;
  readonly reason: RefusalReason;
  readonly detail: string;
}

const reasonOf = (code: SignatureErrorCode): RefusalReason => {
  switch (code) {
    case "MissingField":
      return "missing_signature";
    case "ResolverFailed":
      return "unknown_key";
    case "PolicyViolation":
    case "AlgorithmMismatch":
      return "policy";
    case "VerificationFailed":
      return "bad_mac";
    case "MalformedField":
    case "LabelRequired":
    case "LabelMismatch":
    case "DuplicateLabel":
    case "InvalidComponent":
    case "DuplicateComponent":
    case "UnsupportedFeature":
      return "malformed";
  }
};

const refuse = (reason: RefusalReason, detail = ""): HeadRefusal => ({
  ok: false,
  reason,
  detail: detail.slice(0, MAX_DETAIL_CHARS),
});

/** The refusal for a nonce that was not taken. `before_start` is the judge's own word, since only it knows when its memory began. */
export const refusalOfNonce = (verdict: Exclude<NonceVerdict, "taken"> | "before_start"): HeadRefusal =>
  refuse(verdict === "full" ? "nonces_full" : verdict);

/** Only these take part: others are neither signed nor needed, and may hold what the signature library does not accept. */
const isRelevant = (name: string): boolean =>
  ["signature", "signature-input", "content-digest"].includes(name) || isLockgateHeader(name);

const digestPattern = /^sha-256=:[A-Za-z0-9+/]{43}=:$/;
const noncePattern = /^[A-Za-z0-9_-]{16,64}$/;

type KeyVerifier = Verifier & { readonly keyId: string };

/** Everything but memory: signature, clock, headers. */
const judge = async (
  verifiers: ReadonlyMap<string, KeyVerifier>,
  method: string,
  url: string,
  headers: HeaderFields,
  nowMs: number,
): Promise<SignedHead | HeadRefusal> => {
  const fields = [...headers]
    .map(([name, value]) => ({ name: name.toLowerCase(), value }))
    .filter((field) => isRelevant(field.name));
  const ours = fields.filter((field) => isLockgateHeader(field.name)).map((field) => field.name);
  const verified = await verifySignature(
    { kind: "request", method, targetUri: url.startsWith("/") ? `http://us${url}` : url, fields },
    {
      label: SIGNATURE_LABEL,
      policy: {
        algorithms: [SIGNATURE_ALGORITHM],
        // An x-lockgate-* header that is there but not signed was slipped in on the way.
        requiredComponents: [...new Set([...signedComponents, ...requiredLockgateHeaders, ...ours])],
        requiredParameters: signatureParameters,
        maxAge: 0,
        clockSkew: CLOCK_SKEW_S,
        now: Math.floor(nowMs / 1000),
      },
      resolveVerifier: ({ parameters }) => {
        const verifier = verifiers.get(parameters.keyid ?? "");
        if (verifier === undefined) throw new Error("no such key");
        return verifier;
      },
    },
  );
  const lockgate = parseLockgateHeaders(fields.map((field) => [field.name, field.value] as const));
  const contentDigest = fields.find((field) => field.name === "content-digest")?.value.trim() ?? "";
  if (lockgate === undefined || !digestPattern.test(contentDigest)) return refuse("bad_headers");
  const { created = 0, nonce = "" } = verified.parameters;
  if (!noncePattern.test(nonce)) return refuse("bad_nonce");
  const { keyId } = verified.verifier;
  return { ok: true, keyId, contentDigest, lockgate, nonce: `${keyId} ${nonce}`, createdS: created };
};

/**
 * Judges the request line and the headers of one message at a time. `url` is the request target as it came (`/v1/models?x=1`) or absolute;
 * it must not have been normalised. `nowMs` is Unix time.
 */
export type HeadJudge = (
  method: string,
  url: string,
  headers: HeaderFields,
  nowMs: number,
) => Promise<SignedHead | HeadRefusal>;

/** Makes the judge for some keys, by id; several may be active while one is rotated. Throws nothing for whatever a stranger sends. */
export const createHeadJudge = (keys: ReadonlyMap<string, MacCheck>): HeadJudge => {
  const verifiers = new Map(
    [...keys].map(([keyId, verify]) => [keyId, { keyId, algorithm: SIGNATURE_ALGORITHM, verify }] as const),
  );
  return async (method, url, headers, nowMs) => {
    try {
      return await judge(verifiers, method, url, headers, nowMs);
    } catch (error) {
      if (!isSignatureError(error)) throw error;
      return refuse(reasonOf(error.code), error.message);
    }
  };
};

/**
 * Whether a signature was made before a memory of nonces began: what was signed earlier may have been accepted by a predecessor, whose
 * nonces are gone. `createdS` counts whole seconds, so the second in which the memory began is let through.
 */
export const isBeforeStart = (createdS: number, startedAtMs: number): boolean =>
  createdS < Math.floor(startedAtMs / 1000);
