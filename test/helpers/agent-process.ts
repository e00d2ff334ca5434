/** A real agent process with real replicas of the built-in model, for integration tests: its URL, its keys, its wire log. */
import { randomBytes, randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { contentDigest, importSigningKey, signRequest } from "@lockgate/shared-types";
import { z } from "zod";
import { type Started, startScript } from "./processes.ts";
import { readWireLog, type WireTurn } from "./wire-log.ts";

export const agentEntry = fileURLToPath(new URL("../../gpu-agent/bin/gpu-agent.js", import.meta.url));

const readySchema = z.object({
  url: z.url(),
  model: z.string(),
  pids: z.object({ agent: z.number(), replicas: z.array(z.number()) }),
});

const statusSchema = z.object({
  inflight: z.number(),
  waiting: z.number(),
  replicas: z.array(
    z.object({
      index: z.number(),
      state: z.string(),
      pid: z.number().nullable(),
      slots: z.number(),
      free_slots: z.number(),
      inflight: z.number(),
      waiting: z.number(),
      served: z.number(),
      heals: z.number(),
      dropped_lines: z.number(),
    }),
  ),
});
export type AgentStatus = z.infer<typeof statusSchema>;

export interface AgentUnderTest extends Started {
  readonly url: string;
  readonly pids: z.infer<typeof readySchema>["pids"];
  readonly localKey: string;
  readonly signing: { readonly keyId: string; readonly secret: Uint8Array<ArrayBuffer> };
  readonly status: () => Promise<AgentStatus>;
  /** Polls the status until it is as wanted; the limit fails the test. */
  readonly until: (wanted: (status: AgentStatus) => boolean, what: string) => Promise<AgentStatus>;
  readonly wire: () => readonly WireTurn[];
  /** Polls the wire log until it is as wanted. */
  readonly untilWire: (wanted: (turns: readonly WireTurn[]) => boolean, what: string) => Promise<readonly WireTurn[]>;
  /** A POST of a chat completion with the local key. */
  readonly chat: (body: object, init?: RequestInit) => Promise<Response>;
  readonly stop: () => Promise<number | null>;
}

/** How long a state may take to come about, ms; only a fault takes so long. */
const STATE_LIMIT_MS = 30_000;
const POLL_MS = 5;

/** Looks again and again until the value is as wanted; the limit fails the test. */
export const poll = async <T>(look: () => T | Promise<T>, wanted: (value: T) => boolean, what: string): Promise<T> => {
  const limit = Date.now() + STATE_LIMIT_MS;
  for (;;) {
    const value = await look();
    if (wanted(value)) return value;
    if (Date.now() > limit)
      throw new Error(`${what} did not come about; last seen: ${JSON.stringify(value).slice(0, 2000)}`);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
};

/** Starts `gpu-agent serve` (or another entry that takes the same words) on a free port. */
export const startAgentUnderTest = async (
  words: readonly string[] = [],
  entry: { readonly script: string; readonly words: readonly string[] } = { script: agentEntry, words: ["serve"] },
  env: NodeJS.ProcessEnv = {},
): Promise<AgentUnderTest> => {
  const directory = mkdtempSync(join(tmpdir(), "lockgate-agent-"));
  const localKey = randomBytes(24).toString("base64url");
  const signing = { keyId: `test-${randomBytes(4).toString("hex")}`, secret: new Uint8Array(randomBytes(32)) };
  const started = startScript(
    entry.script,
    [...entry.words, "--port", "0", "--json", "--exit-with-stdin", "--wire-log", directory, ...words],
    {
      ...process.env,
      LOCKGATE_LOCAL_KEY: localKey,
      LOCKGATE_SIGNING_KEYS: JSON.stringify({ [signing.keyId]: Buffer.from(signing.secret).toString("base64url") }),
      ...env,
    },
  );
  const { url, pids } = readySchema.parse(JSON.parse(await started.firstLine));
  const authorization = `Bearer ${localKey}`;
  const status = async () =>
    statusSchema.parse(await (await fetch(`${url}/v1/status`, { headers: { authorization } })).json());
  const wire = () => readWireLog(directory);
  return {
    ...started,
    url,
    pids,
    localKey,
    signing,
    status,
    until: (wanted, what) => poll(status, wanted, what),
    wire,
    untilWire: (wanted, what) => poll(wire, wanted, what),
    chat: (body, init = {}) =>
      fetch(`${url}/v1/chat/completions`, {
        method: "POST",
        headers: { authorization, "content-type": "application/json" },
        body: JSON.stringify(body),
        ...init,
      }),
    stop: async () => {
      started.child.kill("SIGTERM");
      const code = await started.exited;
      rmSync(directory, { recursive: true, force: true });
      return code;
    },
  };
};

/** Header fields of a request that an edge with this key would send. */
export const signedBy = async (
  agent: Pick<AgentUnderTest, "signing" | "url">,
  body: string,
  nonce: string = randomUUID(),
): Promise<[string, string][]> =>
  signRequest(
    {
      method: "POST",
      url: `${agent.url}/v1/chat/completions`,
      contentDigest: await contentDigest(new TextEncoder().encode(body)),
      lockgate: { requestId: "req_test", keyId: "k", tenantSalt: "00ff00ff00ff00ff" },
    },
    await importSigningKey(agent.signing.keyId, agent.signing.secret),
    Date.now(),
    nonce,
  );

/** No turn in flight, none waiting, every lease of every replica free. */
export const atRest = ({ inflight, waiting, replicas }: AgentStatus): boolean =>
  inflight === 0 && waiting === 0 && replicas.every((replica) => replica.free_slots === replica.slots);
