/** The admin API's routes for API keys. What they do is key-changes.ts. */
import { createRoute, z } from "@hono/zod-openapi";
import { runOne } from "../usage/ledger.ts";
import { type AdminApp, answerRefusal, errorResponses, jsonOf } from "./app-types.ts";
import { changeKey, createKey, findKey, revokeKey, rotateKey } from "./key-changes.ts";
import { shownGuard } from "./key-definition.ts";
import { keyPage, keyPageStatement, keyQuerySchema } from "./key-directory.ts";
import {
  keyChangeSchema,
  keyDetailsSchema,
  keyEntrySchema,
  keyIdSchema,
  newKeySchema,
  rotationSchema,
  shownKeySchema,
} from "./key-schemas.ts";
import { refuse } from "./outcome.ts";
import { pageSchema } from "./paging.ts";

const params = z.object({ key_id: keyIdSchema });
const tags = ["keys"];
const noSuchKey = () => refuse("not_found", "There is no such key.");

const create = createRoute({
  method: "post",
  path: "/keys",
  tags,
  summary: "Make a key. The answer is the only place where the whole key is ever shown.",
  request: { body: { required: true, content: jsonOf(newKeySchema) } },
  responses: { 201: { description: "The key.", content: jsonOf(shownKeySchema) }, ...errorResponses },
});

const list = createRoute({
  method: "get",
  path: "/keys",
  tags,
  summary: "List keys.",
  request: { query: keyQuerySchema },
  responses: {
    200: { description: "A page of keys.", content: jsonOf(pageSchema(keyEntrySchema)) },
    ...errorResponses,
  },
});

const show = createRoute({
  method: "get",
  path: "/keys/{key_id}",
  tags,
  summary: "Show a key with its guard: limits as they are now, leases, requests whose usage is open.",
  request: { params },
  responses: { 200: { description: "The key.", content: jsonOf(keyDetailsSchema) }, ...errorResponses },
});

const change = createRoute({
  method: "patch",
  path: "/keys/{key_id}",
  tags,
  summary: "Change a key's name, limits, models, scopes or expiry. Takes effect with its next request.",
  request: { params, body: { required: true, content: jsonOf(keyChangeSchema) } },
  responses: { 200: { description: "The key.", content: jsonOf(keyEntrySchema) }, ...errorResponses },
});

const revoke = createRoute({
  method: "post",
  path: "/keys/{key_id}/revoke",
  tags,
  summary: "Revoke a key for ever. Its next request is refused.",
  request: { params },
  responses: { 200: { description: "The key.", content: jsonOf(keyEntrySchema) }, ...errorResponses },
});

const rotate = createRoute({
  method: "post",
  path: "/keys/{key_id}/rotate",
  tags,
  summary: "Give a key a new secret; those from before are taken for the overlap.",
  request: { params, body: { required: true, content: jsonOf(rotationSchema) } },
  responses: { 200: { description: "The key.", content: jsonOf(shownKeySchema) }, ...errorResponses },
});

/** Adds the routes. */
export const addKeyRoutes = (app: AdminApp): void => {
  app.openapi(create, async (c) => {
    const created = await createKey(c.env, c.req.valid("json"));
    return created.ok ? c.json(created.value, 201) : answerRefusal(c, created);
  });
  app.openapi(list, async (c) => {
    const query = c.req.valid("query");
    const { rows } = await runOne(c.env.ports.ledger, keyPageStatement(query));
    return c.json(keyPage(rows, query.limit), 200);
  });
  app.openapi(show, async (c) => {
    const { key_id } = c.req.valid("param");
    const entry = await findKey(c.env, key_id);
    if (entry === undefined) return answerRefusal(c, noSuchKey());
    const view = await c.env.ports.guardOf(key_id).view();
    return c.json({ ...entry, guard: view === undefined ? null : shownGuard(entry, view) }, 200);
  });
  app.openapi(change, async (c) => {
    const changed = await changeKey(c.env, c.req.valid("param").key_id, c.req.valid("json"));
    return changed.ok ? c.json(changed.value, 200) : answerRefusal(c, changed);
  });
  app.openapi(revoke, async (c) => {
    const revoked = await revokeKey(c.env, c.req.valid("param").key_id);
    return revoked.ok ? c.json(revoked.value, 200) : answerRefusal(c, revoked);
  });
  app.openapi(rotate, async (c) => {
    const overlapMs = c.req.valid("json").overlap_s * 1000;
    const rotated = await rotateKey(c.env, c.req.valid("param").key_id, overlapMs);
    return rotated.ok ? c.json(rotated.value, 200) : answerRefusal(c, rotated);
  });
};
