/** The admin API's routes that only look: usage, lost requests, ledger against guards, the audit log. */
import { createRoute } from "@hono/zod-openapi";
import { boundedParallel } from "../bounded-parallel.ts";
import { runOne } from "../usage/ledger.ts";
import { type AdminApp, answerRefusal, errorResponses, jsonOf } from "./app-types.ts";
import { auditPage, auditPageStatement, auditQuerySchema, auditRowSchema } from "./audit.ts";
import {
  compare,
  consistencyQuerySchema,
  consistencyRowSchema,
  ledgerSideStatement,
  VIEW_PARALLEL,
} from "./consistency.ts";
import { findKey } from "./key-changes.ts";
import { keyPage, keyPageStatement } from "./key-directory.ts";
import { lostPage, lostPageStatement, lostQuerySchema, lostRequestSchema } from "./lost-query.ts";
import { refuse } from "./outcome.ts";
import { pageSchema } from "./paging.ts";
import { planUsage, usageQuerySchema, usageRowSchema } from "./usage-query.ts";

const usage = createRoute({
  method: "get",
  path: "/usage",
  tags: ["usage"],
  summary: "Sum usage by any of day, month, key, tenant, model, agent.",
  request: { query: usageQuerySchema },
  responses: { 200: { description: "Sums.", content: jsonOf(pageSchema(usageRowSchema)) }, ...errorResponses },
});

const lost = createRoute({
  method: "get",
  path: "/lost",
  tags: ["usage"],
  summary: "List requests whose usage record has not come, the newest first.",
  request: { query: lostQuerySchema },
  responses: { 200: { description: "Requests.", content: jsonOf(pageSchema(lostRequestSchema)) }, ...errorResponses },
});

const consistency = createRoute({
  method: "get",
  path: "/consistency",
  tags: ["usage"],
  summary: "Compare the ledger with the keys' guards. What is on its way differs for a moment.",
  request: { query: consistencyQuerySchema },
  responses: {
    200: { description: "Keys with their differences.", content: jsonOf(pageSchema(consistencyRowSchema)) },
    ...errorResponses,
  },
});

const audit = createRoute({
  method: "get",
  path: "/audit",
  tags: ["audit"],
  summary: "List changes, the newest first.",
  request: { query: auditQuerySchema },
  responses: { 200: { description: "Changes.", content: jsonOf(pageSchema(auditRowSchema)) }, ...errorResponses },
});

/** Adds the routes. */
export const addReportRoutes = (app: AdminApp): void => {
  app.openapi(usage, async (c) => {
    const plan = planUsage(c.req.valid("query"), c.env.asker.nowMs);
    if (!plan.ok) return answerRefusal(c, refuse("invalid_value", plan.message, plan.param));
    return c.json(plan.page((await runOne(c.env.ports.ledger, plan.statement)).rows), 200);
  });
  app.openapi(lost, async (c) => {
    const query = c.req.valid("query");
    const { rows } = await runOne(c.env.ports.ledger, lostPageStatement(query));
    return c.json(lostPage(rows, query.limit), 200);
  });
  app.openapi(consistency, async (c) => {
    const { key, limit, cursor } = c.req.valid("query");
    const { ledger, guardOf } = c.env.ports;
    const one = key === undefined ? undefined : await findKey(c.env, key);
    if (key !== undefined && one === undefined) return answerRefusal(c, refuse("not_found", "There is no such key."));
    const page =
      one === undefined
        ? keyPage((await runOne(ledger, keyPageStatement({ limit, cursor }))).rows, limit)
        : { data: [one], next_cursor: null };
    const viewed = await boundedParallel(page.data, VIEW_PARALLEL, async (entry) => ({
      entry,
      view: await guardOf(entry.key_id).view(),
    }));
    const { rows } = await runOne(ledger, ledgerSideStatement(viewed));
    return c.json({ data: compare(viewed, rows), next_cursor: page.next_cursor }, 200);
  });
  app.openapi(audit, async (c) => {
    const query = c.req.valid("query");
    const { rows } = await runOne(c.env.ports.ledger, auditPageStatement(query));
    return c.json(auditPage(rows, query.limit), 200);
  });
};
