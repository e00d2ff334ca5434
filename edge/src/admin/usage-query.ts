/**
 * Usage as it is asked for: sums over days, by any of key, tenant, model, agent, day, month. Pure: it makes one statement out of fixed pieces
 * and reads its rows. It sums the daily table, never the turns.
 */
import { z } from "@hono/zod-openapi";
import { dayOf } from "../calendar.ts";
import type { SqlValue, Statement } from "../usage/ledger.ts";
import { identifier } from "./identifier.ts";
import { cursorSchema, limitSchema, type Page, pageOf } from "./paging.ts";

/** Longest span of one question, days. */
export const MAX_SPAN_DAYS = 400;
/** Without `from`: so many days up to `to`. */
export const DEFAULT_SPAN_DAYS = 31;
const DAY_MS = 86_400_000;

/** What usage can be summed by: the name in questions and answers, and the column. */
const columns = {
  day: "day",
  month: "substr(day, 1, 7)",
  key: "key_id",
  tenant: "tenant_id",
  model: "model",
  agent: "agent_id",
} as const;
export type UsageDimension = keyof typeof columns;
export const usageDimensions = Object.keys(columns) as [UsageDimension, ...UsageDimension[]];

const isDay = (text: string): boolean => {
  const ms = Date.parse(`${text}T00:00:00Z`);
  return /^\d{4}-\d{2}-\d{2}$/.test(text) && !Number.isNaN(ms) && dayOf(ms) === text;
};
const daySchema = z
  .string()
  .refine(isDay, "must be a day like 2026-01-31")
  .openapi({ format: "date", example: "2026-01-31" });

const groupSchema = z
  .string()
  .max(64)
  .transform((text) => text.split(","))
  .pipe(z.array(z.enum(usageDimensions)).min(1).max(usageDimensions.length))
  .refine((names) => new Set(names).size === names.length, "names a dimension twice")
  .optional()
  .transform((names): readonly UsageDimension[] => names ?? ["day"])
  .openapi({ type: "string", example: "key,model", description: `Of ${usageDimensions.join(", ")}; default: day.` });

/** An id to look for; empty for usage without one (an agent's local key). */
const wantedId = z
  .union([identifier(), z.literal("")])
  .optional()
  .openapi({ type: "string" });

export const usageQuerySchema = z.strictObject({
  group_by: groupSchema,
  from: daySchema.optional(),
  to: daySchema.optional(),
  key: wantedId,
  tenant: wantedId,
  model: z.string().max(4_096).optional(),
  agent: wantedId,
  limit: limitSchema(),
  cursor: z.string().optional().openapi({ description: "next_cursor of the page before." }),
});
export type UsageQuery = z.output<typeof usageQuerySchema>;

const sum = z.number().int();

export const usageRowSchema = z
  .object({
    day: z.string().optional(),
    month: z.string().optional(),
    key: z.string().optional(),
    tenant: z.string().optional(),
    model: z.string().optional(),
    agent: z.string().optional(),
    turns: sum,
    failed_turns: sum,
    aborted_turns: sum,
    prompt_tokens: sum,
    cached_tokens: sum,
    completion_tokens: sum,
  })
  .openapi("Usage", {
    description: "Sums, with the dimensions that were asked for. cached_tokens are part of prompt_tokens.",
  });
export type UsageRow = z.output<typeof usageRowSchema>;

export type UsagePlan =
  | { readonly ok: true; readonly statement: Statement; readonly page: (rows: readonly unknown[]) => Page<UsageRow> }
  | { readonly ok: false; readonly param: "from" | "cursor"; readonly message: string };

/** The days asked for, both included. */
const spanOf = ({ from, to }: UsageQuery, nowMs: number): { from: string; to: string; days: number } => {
  const last = to ?? dayOf(nowMs);
  const lastMs = Date.parse(`${last}T00:00:00Z`);
  const first = from ?? dayOf(lastMs - (DEFAULT_SPAN_DAYS - 1) * DAY_MS);
  return { from: first, to: last, days: (lastMs - Date.parse(`${first}T00:00:00Z`)) / DAY_MS + 1 };
};

/** Makes the statement for a question, or says which part of it cannot be. */
export const planUsage = (query: UsageQuery, nowMs: number): UsagePlan => {
  const span = spanOf(query, nowMs);
  if (span.days < 1) return { ok: false, param: "from", message: "from: must not be after to" };
  if (span.days > MAX_SPAN_DAYS) {
    return { ok: false, param: "from", message: `from: at most ${MAX_SPAN_DAYS} days can be asked for` };
  }
  const names = query.group_by;
  const parsed = cursorSchema(names.length).safeParse(query.cursor);
  if (!parsed.success) {
    return { ok: false, param: "cursor", message: "cursor: must be the next_cursor of a page with the same group_by" };
  }
  const values: SqlValue[] = [span.from, span.to, query.limit + 1];
  const bound = (value: SqlValue): string => `?${values.push(value)}`;
  const conditions = ["day >= ?1", "day <= ?2"];
  for (const name of ["key", "tenant", "model", "agent"] as const) {
    const wanted = query[name];
    if (wanted !== undefined) conditions.push(`${columns[name]} = ${bound(wanted)}`);
  }
  const groups = names.map((name) => columns[name]);
  if (parsed.data !== undefined) {
    conditions.push(`(${groups.join(", ")}) > (${parsed.data.map((part) => bound(part)).join(", ")})`);
  }
  const sql = `
SELECT ${names.map((name) => `${columns[name]} AS "${name}"`).join(", ")}, sum(turns) AS turns, sum(failed_turns) AS failed_turns,
  sum(aborted_turns) AS aborted_turns, sum(prompt_tokens) AS prompt_tokens, sum(cached_tokens) AS cached_tokens,
  sum(completion_tokens) AS completion_tokens
FROM usage_daily WHERE ${conditions.join(" AND ")}
GROUP BY ${groups.join(", ")} ORDER BY ${groups.join(", ")} LIMIT ?3`;
  return {
    ok: true,
    statement: { sql, values },
    page: (rows) =>
      pageOf(usageRowSchema.array().parse(rows), query.limit, (row) => names.map((name) => row[name] ?? "")),
  };
};
