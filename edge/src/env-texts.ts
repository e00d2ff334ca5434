/** The worker's vars and secrets, as the platform hands them over (wrangler.toml lists them): strings, or absent. config.ts parses them. */
export interface EnvTexts {
  readonly AGENTS?: string;
  readonly AGENT_SIGNING_KEYS?: string;
  readonly API_KEY_HASHES?: string;
  readonly KEY_ID_SECRET?: string;
  readonly TENANT_SALT_SECRET?: string;
  readonly ADMIN_TOKEN_HASH?: string;
  readonly UPSTREAM_HEADERS_TIMEOUT_MS?: string;
}
