/**
 * Makes the key that `npm start` prints, through the admin API as anybody would: one without limits, of a tenant of its own.
 */
import { z } from "zod";

const TENANT = "demo";
/** The edge is on this machine and idle. */
const CALL_TIMEOUT_MS = 10_000;

const createdSchema = z.object({ key: z.string() });

/** Returns the key. `url` is the edge's, `adminToken` its admin credential. Throws, without either, if the edge refuses. */
export const createDemoKey = async (url: string, adminToken: string): Promise<string> => {
  const post = async (path: string, body: object): Promise<unknown> => {
    const response = await fetch(`${url}/admin/v1/${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${adminToken}`, "content-type": "application/json" },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(CALL_TIMEOUT_MS),
    });
    if (!response.ok) throw new Error(`the edge made no demo key (${path}: ${response.status})`);
    return response.json();
  };
  await post("tenants", { tenant: TENANT });
  const scopes = ["chat", "models", "diagnostics"];
  return createdSchema.parse(await post("keys", { tenant: TENANT, name: "demo", scopes })).key;
};
