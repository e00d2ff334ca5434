/**
 * A real edge and a real agent that know of each other: turns one way, heartbeats and usage records the other, each over a spool on the disk.
 */
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type EdgeWorker, type EdgeWorkerOptions, startEdgeWorker } from "../../edge/local/edge-worker.ts";
import { type AskAdmin, adminClient, makeAdminSecrets } from "./admin-client.ts";
import { type AgentUnderTest, poll, startAgentUnderTest } from "./agent-process.ts";

export const AGENT_NAME = "gpu-1";

/** A relay whose address is known before that of what it leads to: connections wait until then. */
const startLateRelay = async () => {
  const target = Promise.withResolvers<string>();
  const sockets = new Set<Socket>();
  const server = createServer((down) => {
    sockets.add(down);
    down.on("error", () => undefined);
    void target.promise.then((url) => {
      const up = connect(Number(new URL(url).port), "127.0.0.1");
      sockets.add(up);
      for (const [from, to] of [
        [down, up],
        [up, down],
      ] as const) {
        from.on("error", () => to.destroy());
        from.on("close", () => to.destroy());
        from.pipe(to);
      }
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    leadTo: target.resolve,
    stop: () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
};

export interface EdgeWithAgent {
  readonly edge: EdgeWorker;
  readonly agent: AgentUnderTest;
  readonly admin: AskAdmin;
  /** A POST of a chat completion with an API key. */
  readonly chat: (key: string, body: object, init?: RequestInit) => Promise<Response>;
  /** Waits until no usage of a key is open any more. */
  readonly settled: (keyId: string) => Promise<void>;
  readonly stop: () => Promise<void>;
}

export interface EdgeWithAgentOptions extends Pick<EdgeWorkerOptions, "main"> {
  /** More words for the agent's command line. */
  readonly words?: readonly string[];
  /** What the edge reaches the agent through; nothing in between unless told otherwise. */
  readonly through?: (agentUrl: string) => Promise<string>;
}

export const startEdgeWithAgent = async ({
  words = [],
  through = async (url) => url,
  ...options
}: EdgeWithAgentOptions = {}): Promise<EdgeWithAgent> => {
  const relay = await startLateRelay();
  const spool = mkdtempSync(join(tmpdir(), "lockgate-spool-"));
  const agent = await startAgentUnderTest([
    ...["--agent-id", AGENT_NAME, "--edge-url", relay.url, "--spool", spool, "--log-level", "error"],
    ...words,
  ]);
  const { keyId, secret } = agent.signing;
  const secrets = makeAdminSecrets();
  const edge = await startEdgeWorker({
    ...options,
    env: {
      ...secrets.env,
      AGENTS: JSON.stringify([{ name: AGENT_NAME, url: await through(agent.url), keyIds: [keyId] }]),
      AGENT_SIGNING_KEYS: JSON.stringify({ [keyId]: Buffer.from(secret).toString("base64url") }),
    },
  });
  relay.leadTo(edge.url);
  const admin = adminClient(edge.url, secrets.token);
  // The heartbeat that waited for the edge is of an agent that starts; until the next one it gets nothing.
  await poll(
    () => admin("GET", "/agents"),
    ({ body }) => body.data[0].heartbeat?.state === "ready",
    "the heartbeat of an agent that is ready",
  );
  return {
    edge,
    agent,
    admin,
    chat: (key, body, init = {}) =>
      fetch(`${edge.url}/v1/chat/completions`, {
        method: "POST",
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        body: JSON.stringify(body),
        ...init,
      }),
    settled: async (id) => {
      await poll(
        () => admin("GET", `/keys/${id}`),
        ({ body }) => body.guard.open_requests.length === 0,
        "the end of all open requests",
      );
    },
    stop: async () => {
      await agent.stop();
      await edge.stop();
      relay.stop();
      rmSync(spool, { recursive: true, force: true });
    },
  };
};
