/**
 * The worker's configuration, parsed once per isolate from its vars and secrets (wrangler.toml lists them).
 *
 * A wrong one is a value, not an exception: every request then gets a 500 and the log a hint, which names the variable and the
 * rule, never the text, because most hold secrets or addresses.
 */
import * as z from "zod";
import type { MacKey } from "./admit/digest.ts";
import { SETTLE_WAIT_MS } from "./admit/reservations.ts";
import { importSecret } from "./admit/secrets.ts";
import type { Parsed } from "./config-json.ts";
import type { EnvTexts } from "./env-texts.ts";
import { type Agent, parseAgents } from "./fleet/agents-config.ts";
import { OPEN_MS } from "./fleet/breaker.ts";
import { HEARTBEAT_STALE_MS } from "./fleet/rank-agents.ts";
import { parseCorsOrigins } from "./security/cors.ts";

/** The wait for an agent's response headers: it sends them when a stream is admitted, at the latest 2 s into any other turn. */
export const UPSTREAM_HEADERS_TIMEOUT_MS = 15_000;
const MAX_UPSTREAM_HEADERS_TIMEOUT_MS = 100_000;

export interface Config {
  readonly agents: readonly Agent[];
  /** Of KEY_ID_SECRET: tells ids of keys that were made here. */
  readonly keyIdKey: MacKey;
  readonly upstreamHeadersTimeoutMs: number;
  /** How long an agent that fails is left alone. */
  readonly breakerOpenMs: number;
  /** From which age on a heartbeat says nothing any more. */
  readonly heartbeatStaleMs: number;
  /** Whose pages may call the API from a browser. */
  readonly corsOrigins: ReadonlySet<string>;
}

export type ConfigResult =
  | { readonly ok: true; readonly config: Config }
  | { readonly ok: false; readonly hint: string };

/** Variables that are a number of ms, with what holds where they are not set and the most that they may be. */
const durations = {
  UPSTREAM_HEADERS_TIMEOUT_MS: [UPSTREAM_HEADERS_TIMEOUT_MS, MAX_UPSTREAM_HEADERS_TIMEOUT_MS],
  BREAKER_OPEN_MS: [OPEN_MS, 300_000],
  HEARTBEAT_STALE_MS: [HEARTBEAT_STALE_MS, 600_000],
  LOST_AFTER_MS: [SETTLE_WAIT_MS, 86_400_000],
} as const;

const parseDuration = (env: EnvTexts, name: keyof typeof durations): Parsed<number> => {
  const [usual, most] = durations[name];
  const parsed = z.coerce
    .number()
    .int()
    .min(1)
    .max(most)
    .safeParse(env[name] ?? usual);
  if (parsed.success) return { ok: true, value: parsed.data };
  return { ok: false, hint: `${name} is not a whole number of ms from 1 to ${most}` };
};

/** Parses `env`. A missing AGENTS means none yet (requests get 503); a missing secret is a fault, never an open door. */
export const parseConfig = async (env: EnvTexts): Promise<ConfigResult> => {
  const agents = await parseAgents(env);
  if (!agents.ok) return agents;
  const keyId = await importSecret("KEY_ID_SECRET", env.KEY_ID_SECRET);
  if (!keyId.ok) return keyId;
  // The guards use it; a request must not get as far as that without it.
  const tenantSalt = await importSecret("TENANT_SALT_SECRET", env.TENANT_SALT_SECRET);
  if (!tenantSalt.ok) return tenantSalt;
  const headersTimeout = parseDuration(env, "UPSTREAM_HEADERS_TIMEOUT_MS");
  if (!headersTimeout.ok) return headersTimeout;
  const breakerOpen = parseDuration(env, "BREAKER_OPEN_MS");
  if (!breakerOpen.ok) return breakerOpen;
  const heartbeatStale = parseDuration(env, "HEARTBEAT_STALE_MS");
  if (!heartbeatStale.ok) return heartbeatStale;

  // The guards read it themselves; here it is only judged.
  const lostAfter = parseDuration(env, "LOST_AFTER_MS");
  if (!lostAfter.ok) return lostAfter;
  const corsOrigins = parseCorsOrigins(env.CORS_ORIGINS);
  if (!corsOrigins.ok) return corsOrigins;

  return {
    ok: true,
    config: {
      agents: agents.value,
      keyIdKey: keyId.key,
      upstreamHeadersTimeoutMs: headersTimeout.value,
      breakerOpenMs: breakerOpen.value,
      heartbeatStaleMs: heartbeatStale.value,
      corsOrigins: corsOrigins.value,
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
