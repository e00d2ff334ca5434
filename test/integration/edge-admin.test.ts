/** The admin API in a real workerd, over real objects and a real database. */
import { createHash } from "node:crypto";
import { Validator } from "@seriousme/openapi-schema-validator";
import test from "ava";
import { type EdgeWorker, startEdgeWorker } from "../../edge/local/edge-worker.ts";
import { type AskAdmin, adminClient, makeAdminSecrets, provisionKey } from "../helpers/admin-client.ts";

const secrets = makeAdminSecrets();
const AGENT = { name: "gpu-1", url: "http://127.0.0.1:9", keyIds: ["k1"], weight: 2 };
const env = {
  ...secrets.env,
  AGENTS: JSON.stringify([AGENT]),
  AGENT_SIGNING_KEYS: JSON.stringify({ k1: "A".repeat(43) }),
};

let edge: EdgeWorker;
let ask: AskAdmin;
const log: string[] = [];
test.before(async () => {
  edge = await startEdgeWorker({ env, onLog: (line) => log.push(line) });
  ask = adminClient(edge.url, secrets.token);
});
test.after.always(async () => {
  await edge?.stop();
});

test.serial(
  "without the credential every admin path is the same 401, an API key included; with none configured a 404",
  async (t) => {
    const { text } = await provisionKey(ask);
    for (const authorization of [
      undefined,
      "Bearer wrong",
      `Bearer ${text}`,
      `Basic ${secrets.token}`,
      `Bearer ${secrets.env.ADMIN_TOKEN_HASH}`,
    ]) {
      for (const path of ["/admin/v1/keys", "/admin/v1/openapi.json", "/admin/v1/nothing", "/admin/x"]) {
        const answer = await fetch(`${edge.url}${path}`, {
          headers: authorization === undefined ? {} : { authorization },
        });
        t.is(answer.status, 401, `${path} ${authorization}`);
        t.is(answer.headers.get("www-authenticate"), "Bearer");
        t.like((await answer.json()) as object, { error: { code: "invalid_api_key" } });
      }
    }
    const { ADMIN_TOKEN_HASH: _, ...without } = env;
    const closed = await startEdgeWorker({ env: without });
    try {
      const answer = await adminClient(closed.url, secrets.token)("GET", "/keys");
      t.is(answer.status, 404);
      t.like(answer.body, { error: { code: "not_found", message: "There is no such endpoint." } });
    } finally {
      await closed.stop();
    }
  },
);

test.serial("the OpenAPI document that is served is valid", async (t) => {
  const { status, body } = await ask("GET", "/openapi.json");
  t.is(status, 200);
  const result = await new Validator().validate(body);
  t.true(result.valid, JSON.stringify(result.errors));
});

test.serial("every answer names its request and is kept by no cache", async (t) => {
  for (const [method, path] of [
    ["GET", "/keys"],
    ["GET", "/nothing"],
    ["POST", "/keys"],
  ] as const) {
    const { headers } = await ask(method, path);
    t.regex(headers.get("x-request-id") ?? "", /^req_[0-9a-f]{32}$/);
    t.is(headers.get("cache-control"), "no-store");
  }
});

test.serial("a body of 64 KiB is read, one byte more is not; only plain JSON is", async (t) => {
  const send = (body: string, type = "application/json") =>
    fetch(`${edge.url}/admin/v1/tenants`, {
      method: "POST",
      headers: { authorization: `Bearer ${secrets.token}`, "content-type": type },
      body,
    });
  const padded = (bytes: number) => `{"tenant":"padded"}${" ".repeat(bytes - 19)}`;
  t.is((await send(padded(64 * 1024))).status, 201);
  t.is((await send(padded(64 * 1024 + 1))).status, 413);
  t.is((await send('{"tenant":"x"}', "text/plain")).status, 415);
  t.is((await send("[".repeat(60_000))).status, 400);
});

test.serial(
  "a key lives from its creation to its end in object and directory alike, and the audit log has every step",
  async (t) => {
    const made = await provisionKey(ask, { name: "life", limits: { requests_per_minute: 5 } });
    const shown = await ask("GET", `/keys/${made.id}`);
    t.like(shown.body, {
      state: "active",
      guard: { agrees: true, secrets: [{ expires_at_ms: null }], open_requests: [] },
    });
    const changed = await ask("PATCH", `/keys/${made.id}`, { name: "longer life", limits: { concurrency: 2 } });
    t.like(changed.body, { name: "longer life", limits: { requests_per_minute: 5, concurrency: 2 } });
    const rotated = await ask("POST", `/keys/${made.id}/rotate`, { overlap_s: 3_600 });
    t.is(rotated.status, 200);
    t.not(rotated.body.key, made.text);
    t.is((await ask("GET", `/keys/${made.id}`)).body.guard.secrets.length, 2);
    t.is((await ask("POST", `/keys/${made.id}/revoke`)).body.state, "revoked");
    t.like((await ask("GET", `/keys/${made.id}`)).body, { state: "revoked", guard: { agrees: true } });
    t.like((await ask("GET", "/keys?state=revoked")).body.data.at(-1), { key_id: made.id });

    const { body } = await ask("GET", `/audit?subject=key:${made.id}`);
    t.deepEqual(
      body.data.map(({ action, outcome }: Record<string, string>) => `${action} ${outcome}`),
      ["key.revoke done", "key.rotate done", "key.change done", "key.create done"],
    );
    t.is(new Set(body.data.map(({ actor }: Record<string, string>) => actor)).size, 1);
    const everything = JSON.stringify([body, await ask("GET", "/keys"), log]);
    for (const text of [made.text, rotated.body.key]) {
      t.false(everything.includes(text.slice(-43)));
      t.false(everything.includes(createHash("sha256").update(text).digest("hex")));
    }
    t.false(everything.includes(secrets.token));
  },
);

test.serial("a definition outlives the object's memory", async (t) => {
  const own = await startEdgeWorker({ env });
  try {
    const admin = adminClient(own.url, secrets.token);
    const { id } = await provisionKey(admin);
    await admin("PATCH", `/keys/${id}`, { limits: { concurrency: 7 } });
    await own.evict("KeyGuard", id);
    t.like((await admin("GET", `/keys/${id}`)).body, { guard: { agrees: true }, limits: { concurrency: 7 } });
    await admin("POST", `/keys/${id}/revoke`);
    await own.evict("KeyGuard", id);
    t.is((await admin("PATCH", `/keys/${id}`, { name: "x" })).status, 409);
  } finally {
    await own.stop();
  }
});

test.serial(
  "of twenty changes at once each is done or told of a conflict, and directory and guard agree afterwards",
  async (t) => {
    const { id } = await provisionKey(ask);
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, at) => ask("PATCH", `/keys/${id}`, { limits: { concurrency: at + 1 } })),
    );
    for (const { status } of answers) t.true(status === 200 || status === 409, String(status));
    t.true(answers.some(({ status }) => status === 200));
    t.like((await ask("GET", `/keys/${id}`)).body, { guard: { agrees: true } });
  },
);

test.serial("ids that this edge did not make leave no object behind", async (t) => {
  const before = await edge.objectCount("KeyGuard");
  for (let at = 0; at < 20; at += 1) {
    const id = createHash("sha256").update(String(at)).digest("hex").slice(0, 32);
    t.is((await ask("GET", `/keys/${id}`)).status, 404);
    t.is((await ask("POST", `/keys/${id}/revoke`)).status, 404);
  }
  t.is(await edge.objectCount("KeyGuard"), before);
});

test.serial("an agent of the configuration is listed, taken out and given a weight; that lasts", async (t) => {
  t.deepEqual((await ask("GET", "/agents")).body.data, [
    { agent: "gpu-1", disabled: false, weight: 2, heartbeat: null },
  ]);
  t.like((await ask("PATCH", "/agents/gpu-1", { disabled: true, weight: 5 })).body, { disabled: true, weight: 5 });
  await edge.evict("Fleet", "fleet");
  t.like((await ask("GET", "/agents")).body.data[0], { disabled: true, weight: 5 });
  t.like((await ask("PATCH", "/agents/gpu-1", { disabled: false, weight: null })).body, { disabled: false, weight: 2 });
  t.is((await ask("PATCH", "/agents/gpu-2", { disabled: true })).status, 404);
});
