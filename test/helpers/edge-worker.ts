/**
 * The real edge in a real workerd, in front of scripted agents: what the integration tests share.
 */
import { createHash, randomBytes } from "node:crypto";
import { EventEmitter, once } from "node:events";
import { startEdgeWorker } from "../../edge/local/edge-worker.ts";
import type { EnvTexts } from "../../edge/src/env-texts.ts";
import { createRequestVerifier } from "../../gpu-agent/src/auth/verify-request.ts";
import { type ScriptedAgent, startScriptedAgent } from "./scripted-agent.ts";

// A test process that is told to go must take workerd with it.
process.once("disconnect", () => process.exit(1));

export interface EdgeUnderTest {
  readonly url: string;
  /** The one API key, with id `demo`. */
  readonly apiKey: string;
  readonly agents: readonly ScriptedAgent[];
  /** Every line that the worker logged so far. They come over a pipe of their own, possibly after the response. */
  readonly log: readonly string[];
  /** The first line about a request, parsed, once it has come. */
  logOf(requestId: unknown): Promise<Readonly<Record<string, unknown>>>;
  stop(): Promise<void>;
}

/** Starts `agentCount` scripted agents that verify signatures, and an edge in front of them. `env` adds or replaces bindings. */
export const startEdgeUnderTest = async (agentCount = 1, env: EnvTexts = {}): Promise<EdgeUnderTest> => {
  const secret = randomBytes(32);
  const apiKey = randomBytes(24).toString("base64url");
  const agents: ScriptedAgent[] = [];
  for (let index = 0; index < agentCount; index += 1) {
    const verifier = createRequestVerifier({ keys: new Map([["k1", secret]]), now: Date.now, startedAtMs: Date.now() });
    agents.push(await startScriptedAgent(verifier));
  }
  const log: string[] = [];
  const lineCame = new EventEmitter();
  const edge = await startEdgeWorker({
    env: {
      AGENTS: JSON.stringify(agents.map(({ url }, index) => ({ name: `agent-${index}`, url, keyId: "k1" }))),
      AGENT_SIGNING_KEYS: JSON.stringify({ k1: secret.toString("base64url") }),
      API_KEY_HASHES: JSON.stringify({ demo: createHash("sha256").update(apiKey).digest("hex") }),
      ...env,
    },
    onLog: (line) => {
      log.push(line);
      lineCame.emit("line");
    },
  });
  return {
    url: edge.url,
    apiKey,
    agents,
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
