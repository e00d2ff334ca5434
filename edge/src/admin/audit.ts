/**
 * The audit log's statements: every change leaves a row with who, what, before and after. Pure.
 *
 * A change that only the ledger knows is written in the same transaction. One that a guard or the fleet carries out is written as begun
 * first and as done afterwards, so that none happens unseen; one that stays begun may hold or not. No secret is ever in a row.
 */
import { z } from "@hono/zod-openapi";
import type { Statement } from "../usage/ledger.ts";
import { type CursorParts, cursorSchema, limitSchema, type Page, pageOf } from "./paging.ts";
import type { Asker } from "./ports.ts";

/** What happened to what: `key:<id>`, `tenant:<id>`, `agent:<name>`. */
export interface AuditEntry {
  readonly action: string;
  readonly subject: string;
  readonly before: unknown;
  readonly after: unknown;
}

const jsonOrNull = (value: unknown): string | null =>
  value === null || value === undefined ? null : JSON.stringify(value);

const valuesOf = (
  { actor, requestId, nowMs }: Asker,
  { action, subject, before, after }: AuditEntry,
  outcome: string,
) => [nowMs, actor, requestId, action, subject, outcome, jsonOrNull(before), jsonOrNull(after)] as const;

const INSERT = "INSERT INTO audit_log (at_ms, actor, request_id, action, subject, outcome, before, after)";

/** Notes a change; `outcome` "done" for one that is complete with its transaction. */
export const audit = (asker: Asker, entry: AuditEntry, outcome: "begun" | "done"): Statement => ({
  sql: `${INSERT} VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)`,
  values: valuesOf(asker, entry, outcome),
});

/** As `audit`, but only if the statement before it in the transaction changed a row. */
export const auditIfChanged = (asker: Asker, entry: AuditEntry, outcome: "begun" | "done"): Statement => ({
  sql: `${INSERT} SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8 WHERE changes() > 0`,
  values: valuesOf(asker, entry, outcome),
});

/** Says how the change that this request has begun came out. */
export const finishAudit = ({ requestId }: Asker, outcome: "done" | "refused"): Statement => ({
  sql: "UPDATE audit_log SET outcome = ?2 WHERE request_id = ?1 AND outcome = 'begun'",
  values: [requestId, outcome],
});

const json = z.unknown().nullable();

export const auditRowSchema = z
  .object({
    audit_id: z.number().int(),
    at_ms: z.number().int(),
    actor: z.string(),
    request_id: z.string(),
    action: z.string(),
    subject: z.string(),
    outcome: z.enum(["begun", "done", "refused"]),
    before: json,
    after: json,
  })
  .openapi("Audit", { description: "A change. One that stays begun broke off: it may hold or not." });
export type AuditRow = z.output<typeof auditRowSchema>;

export const auditQuerySchema = z.strictObject({
  subject: z.string().max(200).optional().openapi({ example: "tenant:acme" }),
  limit: limitSchema(),
  cursor: cursorSchema(1),
});
export type AuditQuery = z.output<typeof auditQuerySchema>;

/** The newest first. */
export const auditPageStatement = ({ subject, limit, cursor }: AuditQuery): Statement => ({
  sql: `
SELECT audit_id, at_ms, actor, request_id, action, subject, outcome, before, after FROM audit_log
WHERE audit_id < ?1${subject === undefined ? "" : " AND subject = ?3"} ORDER BY audit_id DESC LIMIT ?2`,
  values: [cursor?.[0] ?? Number.MAX_SAFE_INTEGER, limit + 1, ...(subject === undefined ? [] : [subject])],
});

const storedJson = z
  .string()
  .nullable()
  .transform((text): unknown => (text === null ? null : JSON.parse(text)));
const storedRowSchema = auditRowSchema.extend({ before: storedJson, after: storedJson });

export const auditPage = (rows: readonly unknown[], limit: number): Page<AuditRow> =>
  pageOf(storedRowSchema.array().parse(rows), limit, ({ audit_id }): CursorParts => [audit_id]);
