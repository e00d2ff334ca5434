/** The worker's vars and secrets, as the platform hands them over (wrangler.toml lists them): strings, or absent. config.ts parses them. */
export interface EnvTexts {
  readonly AGENTS?: string;
  readonly AGENT_SIGNING_KEYS?: string;
  readonly AGENT_ACCESS_TOKENS?: string;
  readonly KEY_ID_SECRET?: string;
  readonly TENANT_SALT_SECRET?: string;
  readonly ADMIN_TOKEN_HASH?: string;
  readonly CORS_ORIGINS?: string;
  readonly LOST_AFTER_MS?: string;
  readonly UPSTREAM_HEADERS_TIMEOUT_MS?: string;
  readonly BREAKER_OPEN_MS?: string;
  readonly HEARTBEAT_STALE_MS?: string;
}
