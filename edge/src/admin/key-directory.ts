/**
 * The directory of API keys in the ledger: what is listed and searched. Pure statements and the shape of a row.
 *
 * It decides nothing: a key's guard does. No hash of a secret is here.
 */
import { z } from "@hono/zod-openapi";
import { type KeyDefinition, scopes } from "../admit/key-guard-types.ts";
import type { Statement } from "../usage/ledger.ts";
import { type KeyEntry, keyStates, tenantIdSchema } from "./key-schemas.ts";
import { cursorSchema, limitSchema, type Page, pageOf } from "./paging.ts";

const storedJson = z.string().transform((text): unknown => JSON.parse(text));

const rowSchema = z
  .object({
    key_id: z.string(),
    tenant_id: z.string(),
    name: z.string(),
    state: z.enum(keyStates),
    scopes: storedJson.pipe(z.array(z.enum(scopes))),
    models: z.union([z.null(), storedJson.pipe(z.array(z.string()))]),
    requests_per_minute: z.number().nullable(),
    tokens_per_minute: z.number().nullable(),
    concurrency: z.number().nullable(),
    tokens_per_month: z.number().nullable(),
    expires_at_ms: z.number().nullable(),
    revoked_at_ms: z.number().nullable(),
    created_at_ms: z.number(),
    changed_at_ms: z.number(),
  })
  .transform(
    ({ tenant_id, requests_per_minute, tokens_per_minute, concurrency, tokens_per_month, ...row }): KeyEntry => ({
      ...row,
      tenant: tenant_id,
      limits: { requests_per_minute, tokens_per_minute, concurrency, tokens_per_month },
    }),
  );

/** Rows of the statements below. */
export const keyEntries = (rows: readonly unknown[]): KeyEntry[] => rowSchema.array().parse(rows);

const COLUMNS = `key_id, tenant_id, name, state, scopes, models, requests_per_minute, tokens_per_minute, concurrency, tokens_per_month,
  expires_at_ms, revoked_at_ms, created_at_ms, changed_at_ms`;

export const keyStatement = (keyId: string): Statement => ({
  sql: `SELECT ${COLUMNS} FROM api_keys WHERE key_id = ?1`,
  values: [keyId],
});

export const keyQuerySchema = z.strictObject({
  tenant: tenantIdSchema.optional(),
  state: z.enum(keyStates).optional(),
  limit: limitSchema(),
  cursor: cursorSchema(1),
});
export type KeyQuery = z.output<typeof keyQuerySchema>;

/** In the order of the ids, which say nothing of age. */
export const keyPageStatement = ({ tenant, state, limit, cursor }: KeyQuery): Statement => ({
  sql: `
SELECT ${COLUMNS} FROM api_keys
WHERE key_id > ?1 AND (?3 IS NULL OR tenant_id = ?3) AND (?4 IS NULL OR state = ?4) ORDER BY key_id LIMIT ?2`,
  values: [cursor?.[0] ?? "", limit + 1, tenant ?? null, state ?? null],
});

export const keyPage = (rows: readonly unknown[], limit: number): Page<KeyEntry> =>
  pageOf(keyEntries(rows), limit, ({ key_id }) => [key_id]);

/** Enters a key as pending, if its tenant is there. */
export const insertKey = (entry: KeyEntry): Statement => ({
  sql: `
INSERT INTO api_keys (${COLUMNS})
SELECT ?1, ?2, ?3, 'pending', ?4, ?5, ?6, ?7, ?8, ?9, ?10, NULL, ?11, ?11 WHERE EXISTS (SELECT 1 FROM tenants WHERE tenant_id = ?2)`,
  values: [
    entry.key_id,
    entry.tenant,
    entry.name,
    JSON.stringify(entry.scopes),
    entry.models === null ? null : JSON.stringify(entry.models),
    entry.limits.requests_per_minute,
    entry.limits.tokens_per_minute,
    entry.limits.concurrency,
    entry.limits.tokens_per_month,
    entry.expires_at_ms,
    entry.created_at_ms,
  ],
});

export const activateKey = (keyId: string): Statement => ({
  sql: "UPDATE api_keys SET state = 'active' WHERE key_id = ?1 AND state = 'pending'",
  values: [keyId],
});

export const revokeEntry = (keyId: string, revokedAtMs: number): Statement => ({
  sql: "UPDATE api_keys SET state = 'revoked', revoked_at_ms = ?2, changed_at_ms = ?2 WHERE key_id = ?1 AND state <> 'revoked'",
  values: [keyId, revokedAtMs],
});

/** Makes the entry say what the guard goes by, unless a later change was there first. A revoked one stays revoked. */
export const updateKey = (definition: KeyDefinition, name: string, nowMs: number): Statement => ({
  sql: `
UPDATE api_keys SET name = ?2, scopes = ?3, models = ?4, requests_per_minute = ?5, tokens_per_minute = ?6, concurrency = ?7,
  tokens_per_month = ?8, expires_at_ms = ?9, changed_at_ms = ?10
WHERE key_id = ?1 AND state <> 'revoked' AND changed_at_ms <= ?10`,
  values: [
    definition.keyId,
    name,
    JSON.stringify(definition.scopes),
    definition.models === null ? null : JSON.stringify(definition.models),
    definition.limits.requestsPerMinute,
    definition.limits.tokensPerMinute,
    definition.limits.concurrency,
    definition.limits.tokensPerMonth,
    definition.expiresAtMs,
    nowMs,
  ],
});
