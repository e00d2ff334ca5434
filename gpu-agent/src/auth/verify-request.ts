/**
 * The agent's verifier of requests: the shared judge of signatures (shared-types, verify-request.ts) with Node's HMAC and digest, and the
 * memory of nonces that one process has. It reads no socket and no clock of its own: `now` is passed in.
 */
import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import {
  createHeadJudge,
  createNonceSet,
  type HeaderFields,
  type HeadRefusal,
  isBeforeStart,
  type MacCheck,
  NONCE_RETENTION_MS,
  type NonceSet,
  refusalOfNonce,
  type SignedHead,
  type SigningKeys,
} from "@lockgate/shared-types";

export interface RequestVerifier {
  /**
   * Judges the request line and the headers, and takes the nonce if all is well.
   * `url` is the request target as it came (`/v1/models?x=1`) or absolute; it must not have been normalised.
   */
  verifyHead(method: string, url: string, headers: HeaderFields): Promise<SignedHead | HeadRefusal>;
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

const macCheck =
  (secret: Uint8Array): MacCheck =>
  (data, signature) => {
    const expected = createHmac("sha256", secret).update(data).digest();
    return signature.length === expected.length && timingSafeEqual(signature, expected);
  };

/** Makes the verifier that one agent process uses for all its requests. */
export const createRequestVerifier = (options: RequestVerifierOptions): RequestVerifier => {
  const { keys, now, startedAtMs, nonces = createNonceSet(NONCE_RETENTION_MS) } = options;
  const judge = createHeadJudge(new Map([...keys].map(([keyId, secret]) => [keyId, macCheck(secret)] as const)));
  return {
    async verifyHead(method, url, headers) {
      const nowMs = now();
      const head = await judge(method, url, headers, nowMs);
      if (!head.ok) return head;
      if (isBeforeStart(head.createdS, startedAtMs)) return refusalOfNonce("before_start");
      // Last, and without an await before the answer: a forged request takes no place, and of two equal ones exactly one wins.
      const verdict = nonces.take(head.nonce, nowMs);
      return verdict === "taken" ? head : refusalOfNonce(verdict);
    },
    verifyBody(contentDigest, body) {
      const actual = Buffer.from(`sha-256=:${createHash("sha256").update(body).digest("base64")}:`);
      const signed = Buffer.from(contentDigest);
      return actual.length === signed.length && timingSafeEqual(actual, signed);
    },
  };
};
