/**
 * Sends the edge one signed message (RFC 9421, the scheme of the requests that come from it, the other way round): the agent's id stands
 * where the API key's does, and no tenant is meant.
 *
 * The path is signed, so what an edge once sent this agent cannot be played back to the edge, or the reverse. No retry, no order, no queue:
 * those are the callers'.
 */
import { randomBytes, randomUUID } from "node:crypto";
import {
  contentDigest,
  encodeNonce,
  importSigningKey,
  NONCE_BYTES,
  type SigningKeys,
  signRequest,
} from "@lockgate/shared-types";

/** The edge has to answer within this, ms. */
export const EDGE_ANSWER_TIMEOUT_MS = 15_000;

/** Posts a JSON text to a path of the edge; resolves with the status, rejects where no answer came or `signal` says stop. */
export type EdgePost = (path: string, json: string, signal: AbortSignal) => Promise<number>;

export interface EdgePostOptions {
  readonly edgeUrl: string;
  readonly agentId: string;
  /** The keys as they are now; at least one. */
  readonly keys: () => SigningKeys;
  /** Unix time, ms. */
  readonly nowMs: () => number;
}

const NO_TENANT = "0".repeat(16);

export const createEdgePost = ({ edgeUrl, agentId, keys, nowMs }: EdgePostOptions): EdgePost => {
  let keyNumber = 0;
  return async (path, json, signal) => {
    const url = `${edgeUrl.replace(/\/+$/, "")}${path}`;
    const body = new TextEncoder().encode(json);
    const known = [...keys()];
    const [keyId, secret] = known[keyNumber % known.length] ?? [];
    if (keyId === undefined || secret === undefined) throw new Error("there is no signing key");
    const fields = await signRequest(
      {
        method: "POST",
        url,
        contentDigest: await contentDigest(body),
        lockgate: { requestId: `agent_${randomUUID()}`, keyId: agentId, tenantSalt: NO_TENANT },
      },
      await importSigningKey(keyId, secret),
      nowMs(),
      encodeNonce(randomBytes(NONCE_BYTES)),
    );
    const response = await fetch(url, {
      method: "POST",
      headers: [...fields, ["content-type", "application/json"]],
      body,
      // A redirect would carry the records to wherever somebody says.
      redirect: "manual",
      signal: AbortSignal.any([signal, AbortSignal.timeout(EDGE_ANSWER_TIMEOUT_MS)]),
    });
    await response.body?.cancel();
    // While keys are rotated the edge may know another one of ours.
    if (response.status === 401 || response.status === 403) keyNumber++;
    return response.status;
  };
};
