/** The real edge in a real workerd before a real agent (or something that stands in its way): what the whole-path tests share. */
import { createHash, randomBytes } from "node:crypto";
import { type EdgeWorker, startEdgeWorker } from "../../edge/local/edge-worker.ts";
import type { AgentUnderTest } from "./agent-process.ts";

export interface EdgeBeforeAgent extends EdgeWorker {
  /** The one API key. */
  readonly key: string;
  /** A POST of a chat completion with that key. */
  readonly chat: (body: object, init?: RequestInit) => Promise<Response>;
}

/** Starts an edge with one upstream: the agent, or `url` when that differs. */
export const startEdgeBefore = async (agent: AgentUnderTest, url: string = agent.url): Promise<EdgeBeforeAgent> => {
  const key = randomBytes(24).toString("base64url");
  const { keyId, secret } = agent.signing;
  const edge = await startEdgeWorker({
    env: {
      AGENTS: JSON.stringify([{ name: "a", url, keyId }]),
      AGENT_SIGNING_KEYS: JSON.stringify({ [keyId]: Buffer.from(secret).toString("base64url") }),
      API_KEY_HASHES: JSON.stringify({ demo: createHash("sha256").update(key).digest("hex") }),
    },
  });
  return {
    ...edge,
    key,
    chat: (body, init = {}) =>
      fetch(`${edge.url}/v1/chat/completions`, {
        method: "POST",
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        body: JSON.stringify(body),
        ...init,
      }),
  };
};
