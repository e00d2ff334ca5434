/** The admin app over a ledger in memory and scripted guards, for unit tests: one call a request, parsed answers. */
import { randomBytes } from "node:crypto";
import { createAdminApp } from "../../edge/src/admin/app.ts";
import type { AgentOverride, FleetAgent } from "../../edge/src/admin/fleet-port.ts";
import { API_KEY_RANDOM_BYTES, isGenuineKeyId, mintApiKey, mintSecret } from "../../edge/src/admit/api-key-format.ts";
import { importSecret } from "../../edge/src/admit/secrets.ts";
import { type MemoryLedger, openMemoryLedger } from "./memory-ledger.ts";
import { createScriptedGuards, type ScriptedGuards } from "./scripted-guards.ts";

/** The clock of these tests, Unix ms: in January 2027. */
export const adminNowMs = 1_800_000_000_000;
export const adminMonth = "2027-01";

export interface Answer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of many shapes
  readonly body: any;
}

export interface AdminApi {
  readonly memory: MemoryLedger;
  readonly guards: ScriptedGuards;
  readonly agents: FleetAgent[];
  readonly logged: string[];
  /** Unix ms; a test may move it. */
  nowMs: number;
  ask(method: string, path: string, body?: unknown): Promise<Answer>;
  /** Makes a tenant and a key of it. */
  makeKey(body?: object): Promise<{ readonly id: string; readonly text: string }>;
}

export const openAdminApi = async (): Promise<AdminApi> => {
  const memory = openMemoryLedger();
  const guards = createScriptedGuards(adminMonth);
  const secret = await importSecret("KEY_ID_SECRET", randomBytes(32).toString("base64url"));
  if (!secret.ok) throw new Error(secret.hint);
  const app = createAdminApp();
  const agents: FleetAgent[] = [{ name: "gpu-1", disabled: false, weight: 1, heartbeat: null }];
  let requests = 0;
  const ports = {
    ledger: memory.ledger,
    guardOf: guards.guardOf,
    isGenuineKeyId: (keyId: string) => isGenuineKeyId(secret.key, keyId),
    mintKey: () => mintApiKey(secret.key, new Uint8Array(randomBytes(API_KEY_RANDOM_BYTES))),
    mintSecret: (keyId: string) => mintSecret(keyId, new Uint8Array(randomBytes(32))),
    fleet: {
      agents: async () => agents,
      setAgent: async (name: string, { disabled, weight }: AgentOverride) => {
        const at = agents.findIndex((agent) => agent.name === name);
        const agent = agents[at];
        if (agent === undefined) throw new Error("no such agent");
        agents[at] = {
          ...agent,
          disabled: disabled ?? agent.disabled,
          weight: weight ?? (weight === null ? 1 : agent.weight),
        };
      },
    },
    logError: (event: string) => void api.logged.push(event),
  };
  const api: AdminApi = {
    memory,
    guards,
    agents,
    logged: [],
    nowMs: adminNowMs,
    async ask(method, path, body) {
      const request = new Request(`http://edge.example/admin/v1${path}`, {
        method,
        ...(body === undefined
          ? {}
          : {
              headers: { "content-type": "application/json" },
              body: typeof body === "string" ? body : JSON.stringify(body),
            }),
      });
      requests += 1;
      const asker = { actor: "admin-test", requestId: `req_${requests}`, nowMs: api.nowMs };
      const response = await app.fetch(request, { ports, asker });
      return { status: response.status, body: await response.json() };
    },
    async makeKey(body = {}) {
      await api.ask("POST", "/tenants", { tenant: "acme" });
      const made = await api.ask("POST", "/keys", { tenant: "acme", name: "ci", ...body });
      if (made.status !== 201) throw new Error(JSON.stringify(made.body));
      return { id: made.body.key_id as string, text: made.body.key as string };
    },
  };
  return api;
};
