/** What the malformed requests know of an edge: enough to come close. */
import { HEARTBEAT_PATH } from "@lockgate/shared-types";
import { provisionKey } from "../admin-client.ts";
import type { EdgeUnderTest } from "../edge-worker.ts";
import { beatOf } from "../fleet-agents.ts";
import { postSigned, signedAsAgent } from "../fleet-heartbeats.ts";

export interface MalformedWorld {
  readonly edge: EdgeUnderTest;
  /** A good key, and keys that were good once. */
  readonly key: string;
  readonly otherKeys: readonly string[];
  readonly adminToken: string;
  /** A good heartbeat, and the fields under which it was taken once. */
  readonly heartbeat: string;
  readonly spent: readonly [string, string][];
  /** Signs with a key that the edge does not know, under a key id that it does. */
  readonly stranger: Pick<EdgeUnderTest, "url" | "signing">;
}

export const makeMalformedWorld = async (edge: EdgeUnderTest): Promise<MalformedWorld> => {
  const revoked = await provisionKey(edge.admin, { name: "revoked" });
  await edge.admin("POST", `/keys/${revoked.id}/revoke`);
  const rotated = await provisionKey(edge.admin, { name: "rotated" });
  await edge.admin("POST", `/keys/${rotated.id}/rotate`, { overlap_s: 0 });
  const heartbeat = JSON.stringify(beatOf("agent-0", {}));
  const spent = await signedAsAgent(edge, 0, { path: HEARTBEAT_PATH, body: heartbeat });
  const { status } = await postSigned(edge.url, HEARTBEAT_PATH, spent, heartbeat);
  if (status !== 204) throw new Error(`the good heartbeat got ${status}`);
  return {
    edge,
    key: edge.apiKey,
    otherKeys: [revoked.text, rotated.text],
    adminToken: edge.adminToken,
    heartbeat,
    spent,
    stranger: { url: edge.url, signing: edge.signing.map(({ keyId }) => ({ keyId, secret: new Uint8Array(32) })) },
  };
};
