/** The admin API over HTTP, as tests use it: a credential, one call a request, and the usual first steps. */
import { createHash, randomBytes } from "node:crypto";
import type { EnvTexts } from "../../edge/src/env-texts.ts";

export interface AdminSecrets {
  readonly token: string;
  /** What an edge needs for keys and its admin API. */
  readonly env: Required<Pick<EnvTexts, "ADMIN_TOKEN_HASH" | "KEY_ID_SECRET" | "TENANT_SALT_SECRET">>;
}

export const makeAdminSecrets = (): AdminSecrets => {
  const token = randomBytes(32).toString("base64url");
  return {
    token,
    env: {
      ADMIN_TOKEN_HASH: createHash("sha256").update(token).digest("hex"),
      KEY_ID_SECRET: randomBytes(32).toString("base64url"),
      TENANT_SALT_SECRET: randomBytes(32).toString("base64url"),
    },
  };
};

export interface AdminAnswer {
  readonly status: number;
  readonly headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of many shapes
  readonly body: any;
}

export type AskAdmin = (method: string, path: string, body?: unknown) => Promise<AdminAnswer>;

/** `path` is below /admin/v1. */
export const adminClient =
  (url: string, token: string): AskAdmin =>
  async (method, path, body) => {
    const response = await fetch(`${url}/admin/v1${path}`, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, headers: response.headers, body: text === "" ? undefined : JSON.parse(text) };
  };

export interface ProvisionedKey {
  readonly id: string;
  /** The whole key. */
  readonly text: string;
}

/** Makes a key, and its tenant where that is not there yet. `body` as the admin API takes it. */
export const provisionKey = async (ask: AskAdmin, body: object = {}): Promise<ProvisionedKey> => {
  const key = { tenant: "acme", name: "test", ...body };
  await ask("POST", "/tenants", { tenant: key.tenant });
  const made = await ask("POST", "/keys", key);
  if (made.status !== 201) throw new Error(`no key was made: ${made.status} ${JSON.stringify(made.body)}`);
  return { id: made.body.key_id as string, text: made.body.key as string };
};
