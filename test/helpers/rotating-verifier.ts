/** An agent's verifier whose keys can be changed while requests come, as a reload does it: nonces outlive the change. */
import { createNonceSet, NONCE_RETENTION_MS } from "@lockgate/shared-types";
import { createRequestVerifier, type RequestVerifier } from "../../gpu-agent/src/auth/verify-request.ts";

/** Key id and secret. */
export type AgentKeys = readonly (readonly [keyId: string, secret: Uint8Array<ArrayBuffer>])[];

export interface RotatingVerifier extends RequestVerifier {
  setKeys(keys: AgentKeys): void;
}

export const verifierOf = (keys: AgentKeys): RotatingVerifier => {
  const nonces = createNonceSet(NONCE_RETENTION_MS);
  const startedAtMs = Date.now();
  const make = (made: AgentKeys) => createRequestVerifier({ keys: new Map(made), now: Date.now, startedAtMs, nonces });
  let current = make(keys);
  return {
    verifyHead: (method, url, headers) => current.verifyHead(method, url, headers),
    verifyBody: (digest, body) => current.verifyBody(digest, body),
    setKeys: (next) => {
      current = make(next);
    },
  };
};
