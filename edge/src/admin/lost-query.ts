/** The list of requests whose usage record never came. Pure. A key's guard writes it (edge/src/admit), a late record shortens it (migrations). */
import { z } from "@hono/zod-openapi";
import type { Statement } from "../usage/ledger.ts";
import { identifier } from "./identifier.ts";
import { cursorSchema, limitSchema, type Page, pageOf } from "./paging.ts";

export const lostQuerySchema = z.strictObject({
  key: identifier().optional(),
  agent: identifier().optional(),
  limit: limitSchema(),
  cursor: cursorSchema(2),
});
export type LostQuery = z.output<typeof lostQuerySchema>;

export const lostRequestSchema = z
  .object({
    request_id: z.string(),
    key_id: z.string(),
    agent_id: z.string(),
    estimated_tokens: z.number().int(),
    started_at_ms: z.number().int(),
    closed_at_ms: z.number().int(),
  })
  .openapi("LostRequest", { description: "A request that an agent took and whose usage record has not come." });
export type LostRequest = z.output<typeof lostRequestSchema>;

/** The newest first. */
export const lostPageStatement = ({ key, agent, limit, cursor }: LostQuery): Statement => ({
  sql: `
SELECT request_id, key_id, agent_id, estimated_tokens, started_at_ms, closed_at_ms FROM lost_requests
WHERE (closed_at_ms, request_id) < (?1, ?2) AND (?4 IS NULL OR key_id = ?4) AND (?5 IS NULL OR agent_id = ?5)
ORDER BY closed_at_ms DESC, request_id DESC LIMIT ?3`,
  values: [cursor?.[0] ?? Number.MAX_SAFE_INTEGER, cursor?.[1] ?? "", limit + 1, key ?? null, agent ?? null],
});

export const lostPage = (rows: readonly unknown[], limit: number): Page<LostRequest> =>
  pageOf(lostRequestSchema.array().parse(rows), limit, ({ closed_at_ms, request_id }) => [closed_at_ms, request_id]);
