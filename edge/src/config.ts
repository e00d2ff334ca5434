/**
 * The worker's configuration, parsed once per isolate from its vars and secrets (wrangler.toml lists them).
 *
 * A wrong one is a value, not an exception: every request then gets a 500 and the log a hint, which names the variable and the
 * rule, never the text, because three of the four hold secrets or addresses.
 */
import { importSigningKey, parseSigningKeys, type SigningKey, signingKeyIdSchema } from "@lockgate/shared-types";
import * as z from "zod";
import type { EnvTexts } from "./env-texts.ts";

/** The wait for an agent's response headers: it sends them when a stream is admitted, at the latest 2 s into any other turn. */
export const UPSTREAM_HEADERS_TIMEOUT_MS = 15_000;
const MAX_UPSTREAM_HEADERS_TIMEOUT_MS = 100_000;
/** What fits in one variable; more of either belongs in a Durable Object. */
const MAX_AGENTS = 64;
const MAX_API_KEYS = 256;

/** One upstream. */
export interface Agent {
  readonly name: string;
  /** Base URL with no trailing slash; a request's path and query are appended. */
  readonly url: string;
  readonly signingKey: SigningKey;
}

export interface Config {
  readonly agents: readonly Agent[];
  /** API key id to the SHA-256 of the key, hex. */
  readonly apiKeyHashes: ReadonlyMap<string, string>;
  readonly upstreamHeadersTimeoutMs: number;
}

export type ConfigResult =
  | { readonly ok: true; readonly config: Config }
  | { readonly ok: false; readonly hint: string };

const isBaseUrl = (text: string): boolean => {
  const url = URL.parse(text);
  return (
    url !== null && /^https?:$/.test(url.protocol) && `${url.username}${url.password}${url.search}${url.hash}` === ""
  );
};

const agentsSchema = z
  .array(
    z.strictObject({
      name: z.string().regex(/^[A-Za-z0-9._-]{1,64}$/),
      url: z
        .string()
        .refine(isBaseUrl, "must be an http(s) URL without credentials, query or fragment")
        .transform((text) => new URL(text).href.replace(/\/+$/, "")),
      keyId: signingKeyIdSchema,
    }),
  )
  .max(MAX_AGENTS)
  .refine((agents) => new Set(agents.map((agent) => agent.name)).size === agents.length, "agent names must differ");

const apiKeyHashesSchema = z
  .record(z.string().regex(/^[A-Za-z0-9._-]{1,64}$/), z.string().regex(/^[0-9a-f]{64}$/))
  .refine((hashes) => Object.keys(hashes).length <= MAX_API_KEYS, `at most ${MAX_API_KEYS} API keys`);

const timeoutSchema = z.coerce.number().int().min(1).max(MAX_UPSTREAM_HEADERS_TIMEOUT_MS);

type Parsed<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly hint: string };

/** `path` of the first issue only goes down to array indices and known names: a record's key could be a pasted secret. */
const parseJson = <T>(name: keyof EnvTexts, schema: z.ZodType<T>, text: string | undefined): Parsed<T> => {
  if (text === undefined) return { ok: false, hint: `${name} is not set` };
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return { ok: false, hint: `${name} is not JSON` };
  }
  const parsed = schema.safeParse(json);
  if (parsed.success) return { ok: true, value: parsed.data };
  return {
    ok: false,
    hint: `${name} does not have the documented shape (${parsed.error.issues[0]?.code ?? "unknown"})`,
  };
};

/** Parses `env`. A missing AGENTS means none yet (requests get 503); a missing key list is a fault, never an open door. */
export const parseConfig = async (env: EnvTexts): Promise<ConfigResult> => {
  const agents = parseJson("AGENTS", agentsSchema, env.AGENTS ?? "[]");
  if (!agents.ok) return agents;
  const hashes = parseJson("API_KEY_HASHES", apiKeyHashesSchema, env.API_KEY_HASHES);
  if (!hashes.ok) return hashes;
  const secrets = parseSigningKeys(env.AGENT_SIGNING_KEYS ?? "{}");
  if (!secrets.ok) return { ok: false, hint: `AGENT_SIGNING_KEYS: ${secrets.hint}` };
  const timeout = timeoutSchema.safeParse(env.UPSTREAM_HEADERS_TIMEOUT_MS ?? UPSTREAM_HEADERS_TIMEOUT_MS);
  if (!timeout.success)
    return { ok: false, hint: "UPSTREAM_HEADERS_TIMEOUT_MS is not a whole number of ms in its range" };

  const ready: Agent[] = [];
  for (const { name, url, keyId } of agents.value) {
    const secret = secrets.keys.get(keyId);
    if (secret === undefined) return { ok: false, hint: `AGENT_SIGNING_KEYS has no key for agent ${name}` };
    ready.push({ name, url, signingKey: await importSigningKey(keyId, secret) });
  }
  return {
    ok: true,
    config: {
      agents: ready,
      apiKeyHashes: new Map(Object.entries(hashes.value)),
      upstreamHeadersTimeoutMs: timeout.data,
    },
  };
};

const parsedConfigs = new WeakMap<EnvTexts, ConfigResult>();

/**
 * parseConfig, remembered for the isolate's env object. The result is kept, not the promise: in workerd a request must not
 * wait for a promise that another request made, which dies with that request.
 */
export const loadConfig = async (env: EnvTexts): Promise<ConfigResult> => {
  const known = parsedConfigs.get(env);
  if (known !== undefined) return known;
  const result = await parseConfig(env);
  parsedConfigs.set(env, result);
  return result;
};
