/**
 * An edge stand-in on a free loopback port that takes usage records and heartbeats as the real one must: it verifies signatures with the
 * real verifier, parses with the shared schemas, and books each turn id once. What it answers is a test's script.
 */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import {
  HEARTBEAT_PATH,
  type Heartbeat,
  heartbeatSchema,
  USAGE_PATH,
  type UsageBatch,
  type UsageRecord,
  usageBatchSchema,
} from "@lockgate/shared-types";
import { createRequestVerifier } from "../../gpu-agent/src/auth/verify-request.ts";
import { type AgentUnderTest, startAgentUnderTest } from "./agent-process.ts";

/** How long a state may take to come about, ms; only a fault takes so long. */
const STATE_LIMIT_MS = 60_000;
const POLL_MS = 5;

type UsageAnswer = number | "reset" | "answer lost";

export interface ScriptedEdge {
  readonly url: string;
  /** Records by the order in which they were first booked. */
  readonly booked: UsageRecord[];
  /** Every batch that was signed well, whatever it was answered. */
  readonly batches: UsageBatch[];
  /** Records of accepted batches that were booked already. */
  readonly again: UsageRecord[];
  readonly heartbeats: Heartbeat[];
  /** The verifier's refusals. */
  readonly refusals: string[];
  /** What happens to a batch of records: a status, 204 books it; "reset" ends the connection, "answer lost" does so after booking. */
  onUsage: (batch: UsageBatch) => UsageAnswer | Promise<UsageAnswer>;
  /** Starts an agent that sends here; its messages wait until its key is known. Earlier agents' keys are forgotten. */
  startAgent(words?: readonly string[]): Promise<AgentUnderTest>;
  /** Whose signatures are taken from now on. */
  trust(signing: AgentUnderTest["signing"]): void;
  /** Polls until it is so; the limit fails the test. */
  until(wanted: () => boolean, what: string): Promise<void>;
  /** Ends the server, and its agents where they still run. */
  stop(): Promise<void>;
}

export const startScriptedEdge = async (): Promise<ScriptedEdge> => {
  const startedAtMs = Date.now();
  const agents: AgentUnderTest[] = [];
  const bookedIds = new Set<string>();
  let verifier = Promise.withResolvers<ReturnType<typeof createRequestVerifier>>();

  const answer = async (request: IncomingMessage): Promise<number | "reset"> => {
    const body = await buffer(request);
    const headers: [string, string][] = [];
    const { rawHeaders, url = "", method = "" } = request;
    for (let at = 0; at + 1 < rawHeaders.length; at += 2)
      headers.push([rawHeaders[at] as string, rawHeaders[at + 1] as string]);
    const judge = await verifier.promise;
    const head = await judge.verifyHead(method, url, headers);
    if (!head.ok || !judge.verifyBody(head.contentDigest, body)) {
      edge.refusals.push(head.ok ? "body" : head.reason);
      return 401;
    }
    const json: unknown = JSON.parse(body.toString());
    if (url === HEARTBEAT_PATH) {
      edge.heartbeats.push(heartbeatSchema.parse(json));
      return 204;
    }
    if (url !== USAGE_PATH) return 404;
    const batch = usageBatchSchema.parse(json);
    edge.batches.push(batch);
    const status = await edge.onUsage(batch);
    if (status !== 204 && status !== "answer lost") return status;
    for (const record of batch.records) {
      (bookedIds.has(record.turn_id) ? edge.again : edge.booked).push(record);
      bookedIds.add(record.turn_id);
    }
    return status === 204 ? status : "reset";
  };
  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const status = await answer(request);
    if (status === "reset") response.socket?.resetAndDestroy();
    else response.writeHead(status).end();
  };
  const server = createServer((request, response) => {
    // A killed agent cuts its connections; whatever else fails here is an answer that a test waits for in vain.
    serve(request, response).catch(() => response.socket?.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");

  const edge: ScriptedEdge = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    booked: [],
    batches: [],
    again: [],
    heartbeats: [],
    refusals: [],
    onUsage: () => 204,
    startAgent: async (words = []) => {
      verifier = Promise.withResolvers();
      const agent = await startAgentUnderTest(["--edge-url", edge.url, ...words]);
      agents.push(agent);
      edge.trust(agent.signing);
      return agent;
    },
    trust: ({ keyId, secret }) => {
      const made = createRequestVerifier({ keys: new Map([[keyId, secret]]), now: Date.now, startedAtMs });
      verifier.resolve(made);
      verifier = Promise.withResolvers();
      verifier.resolve(made);
    },
    until: async (wanted, what) => {
      const limit = Date.now() + STATE_LIMIT_MS;
      while (!wanted()) {
        if (Date.now() > limit) {
          const { booked, batches, again, heartbeats, refusals } = edge;
          const seen = {
            booked: booked.length,
            batches: batches.length,
            again: again.length,
            refusals: refusals.length,
          };
          throw new Error(`${what} did not come about; ${JSON.stringify({ ...seen, heartbeat: heartbeats.at(-1) })}`);
        }
        await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      }
    },
    stop: async () => {
      // Those that a failed test left running.
      for (const agent of agents) agent.child.kill("SIGKILL");
      await Promise.all(agents.map((agent) => agent.exited));
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
  return edge;
};
