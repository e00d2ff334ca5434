import { Validator } from "@seriousme/openapi-schema-validator";
import test from "ava";
import { MAX_PAGE_ROWS } from "../../edge/src/admin/paging.ts";
import { openAdminApi } from "../helpers/admin-api.ts";

const AGENT = "gpu-1";

test("the OpenAPI document is valid and has every route with its errors", async (t) => {
  const api = await openAdminApi();
  const { status, body } = await api.ask("GET", "/openapi.json");
  t.is(status, 200);
  const result = await new Validator().validate(structuredClone(body));
  t.deepEqual(result.errors, undefined);
  t.true(result.valid);
  const routes = Object.entries(body.paths as Record<string, Record<string, { responses: object }>>).flatMap(
    ([path, of]) =>
      Object.entries(of).map(([method, { responses }]) => ({
        route: `${method} ${path}`,
        codes: Object.keys(responses),
      })),
  );
  t.deepEqual(routes.map(({ route }) => route).sort(), [
    "delete /admin/v1/tenants/{tenant}",
    "get /admin/v1/agents",
    "get /admin/v1/audit",
    "get /admin/v1/consistency",
    "get /admin/v1/keys",
    "get /admin/v1/keys/{key_id}",
    "get /admin/v1/lost",
    "get /admin/v1/tenants",
    "get /admin/v1/tenants/{tenant}",
    "get /admin/v1/usage",
    "patch /admin/v1/agents/{agent}",
    "patch /admin/v1/keys/{key_id}",
    "patch /admin/v1/tenants/{tenant}",
    "post /admin/v1/keys",
    "post /admin/v1/keys/{key_id}/revoke",
    "post /admin/v1/keys/{key_id}/rotate",
    "post /admin/v1/tenants",
  ]);
  for (const { route, codes } of routes) {
    for (const code of ["400", "401", "404", "409", "413", "415", "503"])
      t.true(codes.includes(code), `${route} ${code}`);
  }
});

test("a body is refused that has an unknown field, a wrong one, or is no JSON, and the field is named", async (t) => {
  const api = await openAdminApi();
  await api.ask("POST", "/tenants", { tenant: "acme" });
  const key = { tenant: "acme", name: "ci" };
  for (const [body, code, param] of [
    [{ ...key, admin: true }, "invalid_value", null],
    [{ ...key, limits: { rpm: 3 } }, "invalid_value", "limits"],
    [{ ...key, limits: { concurrency: 0 } }, "invalid_value", "limits.concurrency"],
    [{ ...key, limits: { concurrency: 1.5 } }, "invalid_value", "limits.concurrency"],
    [{ ...key, scopes: ["root"] }, "invalid_value", "scopes[0]"],
    [{ ...key, scopes: [] }, "invalid_value", "scopes"],
    [{ ...key, models: [] }, "invalid_value", "models"],
    [{ ...key, name: "two\nlines" }, "invalid_value", "name"],
    [{ ...key, name: "x".repeat(101) }, "invalid_value", "name"],
    [{ ...key, tenant: "a/b" }, "invalid_value", "tenant"],
    [{ name: "ci" }, "invalid_value", "tenant"],
    [[], "invalid_value", null],
    ['{"tenant":', "invalid_json", null],
  ] as const) {
    const answer = await api.ask("POST", "/keys", body);
    t.is(answer.status, 400, JSON.stringify(body));
    t.like(answer.body.error, { code, param }, JSON.stringify(body));
  }
  t.is((await api.ask("POST", "/keys")).status, 400, "no body");
  t.is(api.guards.definitions.size, 0);
});

test("a change that changes nothing is refused", async (t) => {
  const api = await openAdminApi();
  const { id } = await api.makeKey();
  t.is((await api.ask("PATCH", `/keys/${id}`, {})).status, 400);
  t.is((await api.ask("PATCH", `/agents/${AGENT}`, {})).status, 400);
});

test("the largest page is taken, a larger one, an unknown parameter and a cursor of another list are not", async (t) => {
  const api = await openAdminApi();
  for (const list of ["/keys", "/tenants", "/usage", "/lost", "/audit"]) {
    t.is((await api.ask("GET", `${list}?limit=${MAX_PAGE_ROWS}`)).status, 200, list);
    for (const query of [
      `limit=${MAX_PAGE_ROWS + 1}`,
      "limit=0",
      "limit=-1",
      "limit=1e1",
      "page=2",
      "cursor=5b5d",
      "cursor=x",
      "cursor=zz",
    ]) {
      const { status, body } = await api.ask("GET", `${list}?${query}`);
      t.is(status, 400, `${list} ${query}`);
      t.is(body.error.code, "invalid_value");
    }
  }
  t.is((await api.ask("GET", "/consistency?limit=50")).status, 200);
  t.is((await api.ask("GET", "/consistency?limit=51")).status, 400);
});

test("an endpoint that is not there is a 404 in the house's shape", async (t) => {
  const api = await openAdminApi();
  for (const [method, path] of [
    ["GET", "/nothing"],
    ["DELETE", "/keys"],
    ["PUT", "/tenants/acme"],
  ] as const) {
    const { status, body } = await api.ask(method, path);
    t.is(status, 404, path);
    t.like(body.error, { code: "not_found", param: null });
  }
});

test("a tenant goes only without keys, and a revoked key is one", async (t) => {
  const api = await openAdminApi();
  const { id } = await api.makeKey();
  t.is((await api.ask("POST", "/tenants", { tenant: "acme" })).status, 409);
  t.is((await api.ask("DELETE", "/tenants/acme")).status, 409);
  await api.ask("POST", `/keys/${id}/revoke`);
  t.is((await api.ask("DELETE", "/tenants/acme")).status, 409);
  await api.ask("POST", "/tenants", { tenant: "empty", name: "Empty & Co" });
  t.like((await api.ask("PATCH", "/tenants/empty", { name: "Emptier" })).body, { tenant: "empty", name: "Emptier" });
  t.is((await api.ask("DELETE", "/tenants/empty")).status, 200);
  t.is((await api.ask("DELETE", "/tenants/empty")).status, 404);
  t.is((await api.ask("GET", "/tenants/empty")).status, 404);
  t.is((await api.ask("PATCH", "/tenants/empty", { name: "x" })).status, 404);
  const { body } = await api.ask("GET", "/audit?subject=tenant:empty");
  t.deepEqual(
    body.data.map(({ action }: { action: string }) => action),
    ["tenant.delete", "tenant.change", "tenant.create"],
  );
});

test("an agent is taken out of service and put back, and one that is not configured is not there", async (t) => {
  const api = await openAdminApi();
  const off = await api.ask("PATCH", `/agents/${AGENT}`, { disabled: true, weight: 3 });
  t.deepEqual(off.body, { agent: AGENT, disabled: true, weight: 3, heartbeat: null });
  t.like((await api.ask("PATCH", `/agents/${AGENT}`, { disabled: false, weight: null })).body, {
    disabled: false,
    weight: 1,
  });
  t.is((await api.ask("PATCH", "/agents/other", { disabled: true })).status, 404);
  t.is((await api.ask("PATCH", `/agents/${AGENT}`, { weight: 0 })).status, 400);
  t.like((await api.ask("GET", "/audit?subject=agent:gpu-1")).body.data[1], {
    action: "agent.change",
    outcome: "done",
    before: { disabled: false, weight: 1 },
    after: { disabled: true, weight: 3 },
  });
});
