/** The admin API's routes for tenants: whose keys, and whose prefix cache. */
import { createRoute, z } from "@hono/zod-openapi";
import { runOne } from "../usage/ledger.ts";
import { type AdminApp, answerRefusal, errorResponses, jsonOf } from "./app-types.ts";
import { auditIfChanged } from "./audit.ts";
import { tenantIdSchema } from "./key-schemas.ts";
import { done, type Outcome, refuse } from "./outcome.ts";
import { pageSchema } from "./paging.ts";
import type { AdminContext } from "./ports.ts";
import {
  deleteTenant,
  insertTenant,
  newTenantSchema,
  renameTenant,
  type Tenant,
  tenantChangeSchema,
  tenantPage,
  tenantPageStatement,
  tenantQuerySchema,
  tenantSchema,
  tenantStatement,
  tenants,
} from "./tenant-directory.ts";

const params = z.object({ tenant: tenantIdSchema });
const tags = ["tenants"];
const noSuchTenant = () => refuse("not_found", "There is no such tenant.");
const subjectOf = (tenant: string): string => `tenant:${tenant}`;

const findTenant = async ({ ports }: AdminContext, tenant: string): Promise<Tenant | undefined> =>
  tenants((await runOne(ports.ledger, tenantStatement(tenant))).rows)[0];

const createTenant = async ({ ports, asker }: AdminContext, tenant: string, name: string): Promise<Outcome<Tenant>> => {
  const made: Tenant = { tenant, name, created_at_ms: asker.nowMs, changed_at_ms: asker.nowMs };
  const entry = { action: "tenant.create", subject: subjectOf(tenant), before: null, after: { name } };
  const [inserted] = await ports.ledger([insertTenant(made), auditIfChanged(asker, entry, "done")]);
  return inserted?.changes === 1 ? done(made) : refuse("conflict", "There is a tenant with this id.", "tenant");
};

const changeTenant = async (context: AdminContext, tenant: string, name: string): Promise<Outcome<Tenant>> => {
  const { ports, asker } = context;
  const found = await findTenant(context, tenant);
  if (found === undefined) return noSuchTenant();
  const entry = { action: "tenant.change", subject: subjectOf(tenant), before: { name: found.name }, after: { name } };
  const [renamed] = await ports.ledger([renameTenant(tenant, name, asker.nowMs), auditIfChanged(asker, entry, "done")]);
  return renamed?.changes === 1 ? done({ ...found, name, changed_at_ms: asker.nowMs }) : noSuchTenant();
};

const removeTenant = async (context: AdminContext, tenant: string): Promise<Outcome<Tenant>> => {
  const { ports, asker } = context;
  const found = await findTenant(context, tenant);
  if (found === undefined) return noSuchTenant();
  const entry = { action: "tenant.delete", subject: subjectOf(tenant), before: { name: found.name }, after: null };
  const [deleted] = await ports.ledger([deleteTenant(tenant), auditIfChanged(asker, entry, "done")]);
  if (deleted?.changes === 1) return done(found);
  return refuse("conflict", "The tenant has keys; revoked ones count, since usage is told by them.");
};

const tenantAnswer = (description: string) => ({ description, content: jsonOf(tenantSchema) });

const create = createRoute({
  method: "post",
  path: "/tenants",
  tags,
  summary: "Make a tenant.",
  request: { body: { required: true, content: jsonOf(newTenantSchema) } },
  responses: { 201: tenantAnswer("The tenant."), ...errorResponses },
});

const list = createRoute({
  method: "get",
  path: "/tenants",
  tags,
  summary: "List tenants.",
  request: { query: tenantQuerySchema },
  responses: {
    200: { description: "A page of tenants.", content: jsonOf(pageSchema(tenantSchema)) },
    ...errorResponses,
  },
});

const show = createRoute({
  method: "get",
  path: "/tenants/{tenant}",
  tags,
  summary: "Show a tenant.",
  request: { params },
  responses: { 200: tenantAnswer("The tenant."), ...errorResponses },
});

const change = createRoute({
  method: "patch",
  path: "/tenants/{tenant}",
  tags,
  summary: "Rename a tenant. Its id stays: usage and prefix caches hang on it.",
  request: { params, body: { required: true, content: jsonOf(tenantChangeSchema) } },
  responses: { 200: tenantAnswer("The tenant."), ...errorResponses },
});

const remove = createRoute({
  method: "delete",
  path: "/tenants/{tenant}",
  tags,
  summary: "Delete a tenant that has no keys.",
  request: { params },
  responses: { 200: tenantAnswer("The tenant that is gone."), ...errorResponses },
});

/** Adds the routes. */
export const addTenantRoutes = (app: AdminApp): void => {
  app.openapi(create, async (c) => {
    const { tenant, name = tenant } = c.req.valid("json");
    const created = await createTenant(c.env, tenant, name);
    return created.ok ? c.json(created.value, 201) : answerRefusal(c, created);
  });
  app.openapi(list, async (c) => {
    const query = c.req.valid("query");
    const { rows } = await runOne(c.env.ports.ledger, tenantPageStatement(query));
    return c.json(tenantPage(rows, query.limit), 200);
  });
  app.openapi(show, async (c) => {
    const found = await findTenant(c.env, c.req.valid("param").tenant);
    return found === undefined ? answerRefusal(c, noSuchTenant()) : c.json(found, 200);
  });
  app.openapi(change, async (c) => {
    const changed = await changeTenant(c.env, c.req.valid("param").tenant, c.req.valid("json").name);
    return changed.ok ? c.json(changed.value, 200) : answerRefusal(c, changed);
  });
  app.openapi(remove, async (c) => {
    const removed = await removeTenant(c.env, c.req.valid("param").tenant);
    return removed.ok ? c.json(removed.value, 200) : answerRefusal(c, removed);
  });
};
