/**
 * Heartbeats of scripted agents, sent to a real edge as a real agent sends them, and the wait for an edge that has heard of them: it
 * decides from a snapshot that may be 2 s old.
 */
import { contentDigest, HEARTBEAT_PATH, type Heartbeat, importSigningKey, signRequest } from "@lockgate/shared-types";
import type { EdgeUnderTest } from "./edge-worker.ts";
import { exchange } from "./edge-worker-client.ts";
import { beatOf } from "./fleet-agents.ts";

export interface SignedMessage {
  readonly path: string;
  readonly body: string;
  /** Whose name stands in it; the signer's unless told otherwise. */
  readonly agent?: string;
  readonly nonce?: string;
  /** Unix time, ms. */
  readonly nowMs?: number;
}

/** The fields of a message that the agent of that index signs. */
export const signedAsAgent = async (
  edge: Pick<EdgeUnderTest, "url" | "signing">,
  index: number,
  { path, body, agent = `agent-${index}`, nonce = crypto.randomUUID(), nowMs = Date.now() }: SignedMessage,
): Promise<[string, string][]> => {
  const { keyId, secret } = edge.signing[index] ?? { keyId: "", secret: new Uint8Array(32) };
  const fields = await signRequest(
    {
      method: "POST",
      url: `${edge.url}${path}`,
      contentDigest: await contentDigest(new TextEncoder().encode(body)),
      lockgate: { requestId: `agent_${crypto.randomUUID()}`, keyId: agent, tenantSalt: "0".repeat(16) },
    },
    await importSigningKey(keyId, secret),
    nowMs,
    nonce,
  );
  return [...fields, ["content-type", "application/json"]];
};

export const postSigned = (url: string, path: string, headers: [string, string][], body: string): Promise<Response> =>
  fetch(`${url}${path}`, { method: "POST", headers, body });

export type BeatFields = Partial<Heartbeat> & { readonly slots?: number; readonly free?: number };

/** Sends one heartbeat of the agent of that index; resolves with the status. */
export const beat = async (edge: EdgeUnderTest, index: number, fields: BeatFields = {}): Promise<number> => {
  const body = JSON.stringify(beatOf(`agent-${index}`, fields));
  const headers = await signedAsAgent(edge, index, { path: HEARTBEAT_PATH, body });
  const response = await postSigned(edge.url, HEARTBEAT_PATH, headers, body);
  await response.body?.cancel();
  return response.status;
};

/** A snapshot is never older than 2 s; a loaded machine gets more. */
const HEARD_LIMIT_MS = 30_000;
const POLL_MS = 10;
let markers = 0;

/**
 * Sends one heartbeat for each entry, in their order, and waits until the workers at `urls` decide by them. The last one is of an agent
 * that takes turns: it says that it has one more model, whose name nobody has heard yet, and that is what is asked for. An agent that
 * never beat might have any model, so every agent must have beaten by then: only then is a model that nobody has a 404.
 */
export const hear = async (
  edge: EdgeUnderTest,
  beats: readonly (readonly [index: number, fields: BeatFields])[],
  urls: readonly string[] = edge.urls,
): Promise<void> => {
  markers += 1;
  const marker = `marker-${markers}`;
  for (const [at, [index, fields]] of beats.entries()) {
    const models = [...(fields.models ?? ["atlas"]), ...(at === beats.length - 1 ? [marker] : [])];
    const status = await beat(edge, index, { ...fields, models });
    if (status !== 204) throw new Error(`a heartbeat got ${status}`);
  }
  const limit = Date.now() + HEARD_LIMIT_MS;
  for (const url of urls) {
    for (;;) {
      const statusFor = async (model: string) =>
        (await exchange({ ...edge, url }, { body: JSON.stringify({ model }) })).status;
      if ((await statusFor("nobody-has-this")) === 404 && (await statusFor(marker)) !== 404) break;
      if (Date.now() > limit) throw new Error("the edge has not heard of the heartbeats in time");
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
  }
};

/** Which agents were sent how many of these requests. */
export const countsOf = async (edge: EdgeUnderTest, work: () => Promise<unknown>): Promise<number[]> => {
  const before = edge.agents.map(({ requests }) => requests.length);
  await work();
  return edge.agents.map(({ requests }, index) => requests.length - (before[index] ?? 0));
};
