/**
 * Decides whether a request was signed by an edge that shares a key with this agent (RFC 9421, RFC 9530).
 *
 * The head is judged before the body is read, so that a stranger cannot make the agent buffer anything; the body is then
 * compared with the digest that was signed. Every refusal looks alike outside; `reason` and `detail` are for the log alone.
 * It reads no socket and no clock of its own: `now` is passed in.
 */
import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import {
  CLOCK_SKEW_S,
  isLockgateHeader,
  type LockgateHeaders,
  parseLockgateHeaders,
  requiredLockgateHeaders,
  SIGNATURE_ALGORITHM,
  SIGNATURE_LABEL,
  type SigningKeys,
  signatureParameters,
  signedComponents,
} from "@lockgate/shared-types";
import { isSignatureError, type SignatureErrorCode, type Verifier, verifySignature } from "http-message-sig";
import { createNonceSet, type NonceSet } from "./nonce-set.ts";

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

export type HeadVerdict =
  | {
      readonly ok: true;
      /** The signing key's id. */
      readonly keyId: string;
      /** To be handed to verifyBody once the body was read. */
      readonly contentDigest: string;
      readonly lockgate: LockgateHeaders;
    }
  | { readonly ok: false; readonly reason: RefusalReason; readonly detail: string };

export interface RequestVerifier {
  /**
   * Judges the request line and the headers, and takes the nonce if all is well.
   * `url` is the request target as it came (`/v1/models?x=1`) or absolute; it must not have been normalised.
   */
  verifyHead(method: string, url: string, headers: HeaderFields): Promise<HeadVerdict>;
  /** True if these bytes are the ones whose digest was signed. */
  verifyBody(contentDigest: string, body: Uint8Array): boolean;
}

export interface RequestVerifierOptions {
  /** Key id to secret; several may be active while one is rotated. */
  readonly keys: SigningKeys;
  /** Unix time, ms. */
  readonly now: () => number;
  /** When this process started: what was signed before may have been accepted by its predecessor, whose nonces are gone. */
  readonly startedAtMs: number;
  /** For tests at the bound. */
  readonly nonces?: NonceSet;
}

const hmacVerifier = (keyId: string, secret: Uint8Array): Verifier & { readonly keyId: string } => ({
  keyId,
  algorithm: SIGNATURE_ALGORITHM,
  verify: (data, signature) => {
    const expected = createHmac("sha256", secret).update(data).digest();
    return signature.length === expected.length && timingSafeEqual(signature, expected);
  },
});

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

const refuse = (reason: RefusalReason, detail = ""): HeadVerdict => ({
  ok: false,
  reason,
  detail: detail.slice(0, MAX_DETAIL_CHARS),
});

/** Only these take part: others are neither signed nor needed, and may hold what the signature library does not accept. */
const isRelevant = (name: string): boolean =>
  ["signature", "signature-input", "content-digest"].includes(name) || isLockgateHeader(name);

const digestPattern = /^sha-256=:[A-Za-z0-9+/]{43}=:$/;
const noncePattern = /^[A-Za-z0-9_-]{16,64}$/;

/** Makes the verifier that one agent process uses for all its requests. */
export const createRequestVerifier = (options: RequestVerifierOptions): RequestVerifier => {
  const { keys, now, startedAtMs, nonces = createNonceSet(NONCE_RETENTION_MS) } = options;
  const verifiers = new Map([...keys].map(([keyId, secret]) => [keyId, hmacVerifier(keyId, secret)] as const));
  /** `created` counts whole seconds, so the second in which the process started is let through. */
  const startedAtS = Math.floor(startedAtMs / 1000);

  const verify = async (method: string, url: string, headers: HeaderFields): Promise<HeadVerdict> => {
    const fields = [...headers]
      .map(([name, value]) => ({ name: name.toLowerCase(), value }))
      .filter((f) => isRelevant(f.name));
    const nowMs = now();
    const ours = fields.filter((field) => isLockgateHeader(field.name)).map((field) => field.name);
    const verified = await verifySignature(
      { kind: "request", method, targetUri: url.startsWith("/") ? `http://agent${url}` : url, fields },
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
    if (created < startedAtS) return refuse("before_start");
    if (!noncePattern.test(nonce)) return refuse("bad_nonce");
    // Last, and without an await before the answer: a forged request takes no place, and of two equal ones exactly one wins.
    const verdict = nonces.take(`${verified.verifier.keyId} ${nonce}`, nowMs);
    if (verdict !== "taken") return refuse(verdict === "full" ? "nonces_full" : "replayed");
    return { ok: true, keyId: verified.verifier.keyId, contentDigest, lockgate };
  };

  return {
    async verifyHead(method, url, headers) {
      try {
        return await verify(method, url, headers);
      } catch (error) {
        if (!isSignatureError(error)) throw error;
        return refuse(reasonOf(error.code), error.message);
      }
    },
    verifyBody(contentDigest, body) {
      const actual = Buffer.from(`sha-256=:${createHash("sha256").update(body).digest("base64")}:`);
      const signed = Buffer.from(contentDigest);
      return actual.length === signed.length && timingSafeEqual(actual, signed);
    },
  };
};
