import { createHash } from "node:crypto";
import test from "ava";
import { adminNowMs, openAdminApi } from "../helpers/admin-api.ts";

const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");
const DAY_MS = 86_400_000;

test("a new key is shown once in full, its guard has its hash alone, the directory and the audit log neither", async (t) => {
  const api = await openAdminApi();
  await api.ask("POST", "/tenants", { tenant: "acme" });
  const { status, body } = await api.ask("POST", "/keys", { tenant: "acme", name: "ci", limits: { concurrency: 2 } });
  t.is(status, 201);
  t.regex(body.key, new RegExp(`^lg_${body.key_id}_`));
  const definition = api.guards.definitions.get(body.key_id);
  t.like(definition, { tenantId: "acme", scopes: ["chat", "models"], models: null, revokedAtMs: null });
  t.deepEqual(definition?.secrets, [{ sha256: sha256(body.key), expiresAtMs: null }]);
  t.deepEqual(definition?.limits, {
    requestsPerMinute: null,
    tokensPerMinute: null,
    concurrency: 2,
    tokensPerMonth: null,
  });
  const secret = body.key.slice(-43);
  for (const table of ["api_keys", "audit_log"]) {
    const rows = JSON.stringify(api.memory.query(`SELECT * FROM ${table}`));
    t.false(rows.includes(secret), table);
    t.false(rows.includes(sha256(body.key)), table);
  }
  const shown = await api.ask("GET", `/keys/${body.key_id}`);
  t.like(shown.body, { state: "active", name: "ci", guard: { agrees: true, leases: 0 } });
  t.false(JSON.stringify(shown.body).includes(sha256(body.key)));
});

test("a key of a tenant that is not there is refused, and nothing is left of it", async (t) => {
  const api = await openAdminApi();
  const { status, body } = await api.ask("POST", "/keys", { tenant: "nobody", name: "ci" });
  t.is(status, 400);
  t.like(body.error, { code: "invalid_value", param: "tenant" });
  t.is(api.guards.definitions.size, 0);
  t.deepEqual(api.memory.query("SELECT * FROM api_keys"), []);
  t.deepEqual(api.memory.query("SELECT * FROM audit_log"), []);
});

test("a change reaches the guard with what it names and leaves the rest", async (t) => {
  const api = await openAdminApi();
  const { id } = await api.makeKey({ limits: { requests_per_minute: 60, concurrency: 4 }, models: ["atlas"] });
  const { status, body } = await api.ask("PATCH", `/keys/${id}`, {
    name: "nightly",
    limits: { concurrency: null, tokens_per_month: 1_000 },
    expires_at_ms: adminNowMs + 1,
  });
  t.is(status, 200);
  t.like(body, { name: "nightly", models: ["atlas"], expires_at_ms: adminNowMs + 1 });
  t.deepEqual(body.limits, {
    requests_per_minute: 60,
    tokens_per_minute: null,
    concurrency: null,
    tokens_per_month: 1_000,
  });
  t.like(api.guards.definitions.get(id), {
    models: ["atlas"],
    limits: { requestsPerMinute: 60, concurrency: null, tokensPerMonth: 1_000 },
    expiresAtMs: adminNowMs + 1,
  });
  const audit = await api.ask("GET", `/audit?subject=key:${id}`);
  t.like(audit.body.data[0], {
    action: "key.change",
    actor: "admin-test",
    outcome: "done",
    before: { name: "ci", limits: { concurrency: 4 } },
    after: { name: "nightly", limits: { concurrency: null } },
  });
});

test("a revocation holds for ever: a revoked key is neither changed nor rotated, and revoking again changes nothing", async (t) => {
  const api = await openAdminApi();
  const { id } = await api.makeKey();
  const revoked = await api.ask("POST", `/keys/${id}/revoke`);
  t.is(revoked.status, 200);
  t.like(revoked.body, { state: "revoked", revoked_at_ms: adminNowMs });
  t.is(api.guards.definitions.get(id)?.revokedAtMs, adminNowMs);
  t.is((await api.ask("PATCH", `/keys/${id}`, { name: "x" })).status, 409);
  t.is((await api.ask("POST", `/keys/${id}/rotate`, {})).status, 409);
  api.nowMs += 1_000;
  const again = await api.ask("POST", `/keys/${id}/revoke`);
  t.deepEqual([again.status, again.body.revoked_at_ms], [200, adminNowMs]);
  t.is(api.memory.query("SELECT * FROM audit_log WHERE action = 'key.revoke'").length, 1);
});

test("a rotation keeps the secret from before for the overlap, a day unless told, and never longer than its own end", async (t) => {
  const api = await openAdminApi();
  const { id, text } = await api.makeKey();
  const first = await api.ask("POST", `/keys/${id}/rotate`, {});
  t.is(first.status, 200);
  t.deepEqual(api.guards.definitions.get(id)?.secrets, [
    { sha256: sha256(first.body.key), expiresAtMs: null },
    { sha256: sha256(text), expiresAtMs: adminNowMs + DAY_MS },
  ]);
  const second = await api.ask("POST", `/keys/${id}/rotate`, { overlap_s: 7 * 86_400 });
  t.deepEqual(
    api.guards.definitions.get(id)?.secrets.map(({ expiresAtMs }) => expiresAtMs),
    [null, adminNowMs + 7 * DAY_MS, adminNowMs + DAY_MS],
  );
  t.is((await api.ask("POST", `/keys/${id}/rotate`, { overlap_s: 0 })).status, 200);
  t.is(api.guards.definitions.get(id)?.secrets.length, 1);
  t.false(JSON.stringify(api.memory.query("SELECT * FROM audit_log")).includes(second.body.key.slice(-43)));
});

test("an overlap of 7 days is taken, a second more is not; of secrets 4 are, a fifth is not", async (t) => {
  const api = await openAdminApi();
  const { id } = await api.makeKey();
  t.is((await api.ask("POST", `/keys/${id}/rotate`, { overlap_s: 7 * 86_400 + 1 })).status, 400);
  for (let time = 0; time < 3; time += 1) {
    t.is((await api.ask("POST", `/keys/${id}/rotate`, { overlap_s: 7 * 86_400 })).status, 200, String(time));
  }
  const fifth = await api.ask("POST", `/keys/${id}/rotate`, { overlap_s: 7 * 86_400 });
  t.is(fifth.status, 409);
  t.like(fifth.body.error, { param: "overlap_s" });
  t.is(api.guards.definitions.get(id)?.secrets.length, 4);
  api.nowMs += 7 * DAY_MS;
  t.is((await api.ask("POST", `/keys/${id}/rotate`, {})).status, 200, "those that ended make room");
});

test("an expiry that is over already is refused, of a new key and of a change", async (t) => {
  const api = await openAdminApi();
  const { id } = await api.makeKey();
  const wrong = { expires_at_ms: adminNowMs };
  t.is((await api.ask("POST", "/keys", { tenant: "acme", name: "x", ...wrong })).status, 400);
  t.is((await api.ask("PATCH", `/keys/${id}`, wrong)).status, 400);
});

test("an id that this edge did not make names no guard", async (t) => {
  const api = await openAdminApi();
  api.guards.fault = () => t.fail("a guard was asked");
  const invented = "0".repeat(32);
  t.is((await api.ask("GET", `/keys/${invented}`)).status, 404);
  t.is((await api.ask("PATCH", `/keys/${invented}`, { name: "x" })).status, 404);
  t.is((await api.ask("POST", `/keys/${invented}/revoke`)).status, 404);
  t.is((await api.ask("POST", `/keys/${invented}/rotate`, {})).status, 404);
  t.is((await api.ask("GET", `/consistency?key=${invented}`)).status, 404);
});

test("of two changes at once one is told, and the revocation of the other stands", async (t) => {
  const api = await openAdminApi();
  const { id } = await api.makeKey();
  api.guards.fault = (when, call) => {
    if (when !== "before" || call !== "define") return;
    api.guards.fault = () => {};
    const known = api.guards.definitions.get(id);
    if (known !== undefined) api.guards.definitions.set(id, { ...known, revokedAtMs: adminNowMs });
  };
  const change = await api.ask("PATCH", `/keys/${id}`, { limits: { concurrency: 9 } });
  t.is(change.status, 409);
  t.is(api.guards.definitions.get(id)?.revokedAtMs, adminNowMs);
  t.is(api.memory.query("SELECT outcome FROM audit_log WHERE action = 'key.change'")[0]?.outcome, "refused");
});

test("a revocation goes through against changes that get in between, up to a bound", async (t) => {
  const api = await openAdminApi();
  const { id } = await api.makeKey();
  let others = 0;
  const otherChange = (most: number) => (when: string, call: string) => {
    const known = api.guards.definitions.get(id);
    if (when !== "before" || call !== "define" || known === undefined || others >= most) return;
    others += 1;
    api.guards.definitions.set(id, { ...known, expiresAtMs: adminNowMs + others });
  };
  api.guards.fault = otherChange(8);
  t.is((await api.ask("POST", `/keys/${id}/revoke`)).status, 409);
  others = 0;
  api.guards.fault = otherChange(7);
  t.is((await api.ask("POST", `/keys/${id}/revoke`)).status, 200);
  t.is(api.guards.definitions.get(id)?.revokedAtMs, adminNowMs);
});

test("lists go on where the page before ended, whatever was made in between", async (t) => {
  const api = await openAdminApi();
  await api.ask("POST", "/tenants", { tenant: "acme" });
  for (let made = 0; made < 5; made += 1) await api.ask("POST", "/keys", { tenant: "acme", name: `k${made}` });
  const seen: string[] = [];
  let cursor = "";
  for (let pages = 0; pages < 3; pages += 1) {
    const { body } = await api.ask("GET", `/keys?tenant=acme&limit=2${cursor}`);
    seen.push(...body.data.map(({ key_id }: { key_id: string }) => key_id));
    cursor = `&cursor=${body.next_cursor}`;
    if (pages === 2) t.is(body.next_cursor, null);
  }
  t.is(seen.length, 5);
  t.deepEqual(seen, [...new Set(seen)].sort());
  t.deepEqual((await api.ask("GET", "/keys?tenant=other")).body.data, []);
  t.deepEqual((await api.ask("GET", "/keys?state=revoked")).body.data, []);
});
