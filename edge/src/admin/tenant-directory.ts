/** Tenants in the ledger: statements, schemas and rows. Pure. */
import { z } from "@hono/zod-openapi";
import type { Statement } from "../usage/ledger.ts";
import { nameSchema, tenantIdSchema } from "./key-schemas.ts";
import { cursorSchema, limitSchema, type Page, pageOf } from "./paging.ts";

export const newTenantSchema = z
  .strictObject({ tenant: tenantIdSchema, name: nameSchema.optional().openapi({ description: "The id, if absent." }) })
  .openapi("NewTenant");
export const tenantChangeSchema = z.strictObject({ name: nameSchema }).openapi("TenantChange");
export const tenantSchema = z
  .object({
    tenant: tenantIdSchema,
    name: z.string(),
    created_at_ms: z.number().int(),
    changed_at_ms: z.number().int(),
  })
  .openapi("Tenant");
export type Tenant = z.output<typeof tenantSchema>;

export const tenantQuerySchema = z.strictObject({ limit: limitSchema(), cursor: cursorSchema(1) });
export type TenantQuery = z.output<typeof tenantQuerySchema>;

const COLUMNS = "tenant_id AS tenant, name, created_at_ms, changed_at_ms";

/** Rows of the statements below. */
export const tenants = (rows: readonly unknown[]): Tenant[] => tenantSchema.array().parse(rows);

export const tenantStatement = (tenant: string): Statement => ({
  sql: `SELECT ${COLUMNS} FROM tenants WHERE tenant_id = ?1`,
  values: [tenant],
});

export const tenantPageStatement = ({ limit, cursor }: TenantQuery): Statement => ({
  sql: `SELECT ${COLUMNS} FROM tenants WHERE tenant_id > ?1 ORDER BY tenant_id LIMIT ?2`,
  values: [cursor?.[0] ?? "", limit + 1],
});

export const tenantPage = (rows: readonly unknown[], limit: number): Page<Tenant> =>
  pageOf(tenants(rows), limit, ({ tenant }) => [tenant]);

/** Changes nothing if the id is taken. */
export const insertTenant = ({ tenant, name, created_at_ms }: Tenant): Statement => ({
  sql: "INSERT INTO tenants (tenant_id, name, created_at_ms, changed_at_ms) VALUES (?1, ?2, ?3, ?3) ON CONFLICT DO NOTHING",
  values: [tenant, name, created_at_ms],
});

export const renameTenant = (tenant: string, name: string, nowMs: number): Statement => ({
  sql: "UPDATE tenants SET name = ?2, changed_at_ms = ?3 WHERE tenant_id = ?1",
  values: [tenant, name, nowMs],
});

/** Changes nothing while a key, revoked or not, is the tenant's. */
export const deleteTenant = (tenant: string): Statement => ({
  sql: "DELETE FROM tenants WHERE tenant_id = ?1 AND NOT EXISTS (SELECT 1 FROM api_keys WHERE tenant_id = ?1)",
  values: [tenant],
});
