/** The real edge in a real workerd before a real agent (or something that stands in its way): what the whole-path tests share. */
import { type EdgeWorker, startEdgeWorker } from "../../edge/local/edge-worker.ts";
import { type AskAdmin, adminClient, makeAdminSecrets, provisionKey } from "./admin-client.ts";
import type { AgentUnderTest } from "./agent-process.ts";

export interface EdgeBeforeAgent extends EdgeWorker {
  /** An API key without limits. */
  readonly key: string;
  readonly admin: AskAdmin;
  /** A POST of a chat completion with that key. */
  readonly chat: (body: object, init?: RequestInit) => Promise<Response>;
}

/** Starts an edge with one upstream: the agent, or `url` when that differs. */
export const startEdgeBefore = (agent: AgentUnderTest, url: string = agent.url): Promise<EdgeBeforeAgent> =>
  startEdgeBeforeAll([{ url, signing: agent.signing }]);

/** Starts an edge with these upstreams, each with a key of its own. */
export const startEdgeBeforeAll = async (
  agents: readonly Pick<AgentUnderTest, "url" | "signing">[],
): Promise<EdgeBeforeAgent> => {
  const adminSecrets = makeAdminSecrets();
  const secrets = agents.map(({ signing }) => [signing.keyId, Buffer.from(signing.secret).toString("base64url")]);
  const edge = await startEdgeWorker({
    env: {
      AGENTS: JSON.stringify(
        agents.map(({ url, signing }, at) => ({ name: `agent-${at}`, url, keyIds: [signing.keyId] })),
      ),
      AGENT_SIGNING_KEYS: JSON.stringify(Object.fromEntries(secrets)),
      ...adminSecrets.env,
    },
  });
  const admin = adminClient(edge.url, adminSecrets.token);
  const { text: key } = await provisionKey(admin);
  return {
    ...edge,
    key,
    admin,
    chat: (body, init = {}) =>
      fetch(`${edge.url}/v1/chat/completions`, {
        method: "POST",
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        body: JSON.stringify(body),
        ...init,
      }),
  };
};
