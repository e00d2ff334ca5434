/**
 * The real edge in a real workerd, in front of scripted agents: what the integration tests share.
 */
import { randomBytes } from "node:crypto";
import { EventEmitter, once } from "node:events";
import { type EdgeWorker, type EdgeWorkerOptions, startEdgeWorker } from "../../edge/local/edge-worker.ts";
import type { EnvTexts } from "../../edge/src/env-texts.ts";
import { createRequestVerifier } from "../../gpu-agent/src/auth/verify-request.ts";
import { type AskAdmin, adminClient, makeAdminSecrets, provisionKey } from "./admin-client.ts";
import { type ScriptedAgent, startScriptedAgent } from "./scripted-agent.ts";

// A test process that is told to go must take workerd with it.
process.once("disconnect", () => process.exit(1));

export interface EdgeUnderTest {
  readonly url: string;
  /** For each of the workers; one unless told otherwise. */
  readonly urls: readonly string[];
  /** An API key without limits, and its id. */
  readonly apiKey: string;
  readonly keyId: string;
  readonly admin: AskAdmin;
  readonly adminToken: string;
  /** The workerd below: objects and ledger. */
  readonly worker: EdgeWorker;
  readonly agents: readonly ScriptedAgent[];
  /** What the agent `agent-<index>` signs its own messages with. */
  readonly signing: readonly { readonly keyId: string; readonly secret: Uint8Array<ArrayBuffer> }[];
  /** Every line that the worker logged so far. They come over a pipe of their own, possibly after the response. */
  readonly log: readonly string[];
  /** The first line about a request, parsed, once it has come. */
  logOf(requestId: unknown): Promise<Readonly<Record<string, unknown>>>;
  stop(): Promise<void>;
}

/**
 * Starts `agentCount` scripted agents that verify signatures, and an edge in front of them. `env` adds or replaces bindings; `options`
 * are those of the edge.
 */
export const startEdgeUnderTest = async (
  agentCount = 1,
  env: EnvTexts = {},
  options: Pick<EdgeWorkerOptions, "workers" | "main" | "services"> = {},
): Promise<EdgeUnderTest> => {
  const adminSecrets = makeAdminSecrets();
  const agents: ScriptedAgent[] = [];
  const secrets: Record<string, string> = {};
  const signing: { keyId: string; secret: Uint8Array<ArrayBuffer> }[] = [];
  for (let index = 0; index < agentCount; index += 1) {
    const keyId = `k${index + 1}`;
    const secret = new Uint8Array(randomBytes(32));
    secrets[keyId] = Buffer.from(secret).toString("base64url");
    signing.push({ keyId, secret });
    const keys = new Map([[keyId, secret]]);
    agents.push(await startScriptedAgent(createRequestVerifier({ keys, now: Date.now, startedAtMs: Date.now() })));
  }
  const log: string[] = [];
  const lineCame = new EventEmitter();
  const edge = await startEdgeWorker({
    ...options,
    env: {
      AGENTS: JSON.stringify(
        agents.map(({ url }, index) => ({ name: `agent-${index}`, url, keyIds: [`k${index + 1}`] })),
      ),
      AGENT_SIGNING_KEYS: JSON.stringify(secrets),
      ...adminSecrets.env,
      ...env,
    },
    onLog: (line) => {
      log.push(line);
      lineCame.emit("line");
    },
  });
  const admin = adminClient(edge.url, adminSecrets.token);
  // One that is meant to be misconfigured makes no key; its answers do not depend on one.
  const key = await provisionKey(admin).catch(() => ({ id: "none", text: "none" }));
  return {
    url: edge.url,
    urls: edge.urls,
    apiKey: key.text,
    keyId: key.id,
    admin,
    adminToken: adminSecrets.token,
    worker: edge,
    agents,
    signing,
    log,
    async logOf(requestId) {
      for (;;) {
        const line = log.find((candidate) => candidate.includes(`"requestId":"${requestId}"`));
        if (line !== undefined) return JSON.parse(line) as Record<string, unknown>;
        await once(lineCame, "line");
      }
    },
    async stop() {
      await edge.stop();
      await Promise.all(agents.map((agent) => agent.stop()));
    },
  };
};

/** The only agent of an edge that has one. */
export const onlyAgent = (edge: EdgeUnderTest): ScriptedAgent => {
  const [agent] = edge.agents;
  if (agent === undefined) throw new Error("the edge under test has no agent");
  return agent;
};
