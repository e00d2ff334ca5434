import { HEARTBEAT_PATH, USAGE_PATH } from "@lockgate/shared-types";
import test from "ava";
import { provisionKey } from "../helpers/admin-client.ts";
import { onlyAgent, startEdgeUnderTest } from "../helpers/edge-worker.ts";
import { exchange, type RawRequest } from "../helpers/edge-worker-client.ts";
import { postSigned, signedAsAgent } from "../helpers/fleet-heartbeats.ts";
import { sendRaw } from "../helpers/raw-http.ts";
import { answerOk } from "../helpers/scripted-agent.ts";

const edge = await startEdgeUnderTest();
const agent = onlyAgent(edge);
test.after.always(() => edge.stop());

const admin = (options: RawRequest): RawRequest => ({
  ...options,
  path: `/admin/v1${options.path ?? ""}`,
  headers: { authorization: `Bearer ${edge.adminToken}`, ...options.headers },
  authorized: false,
});

test.serial("from the answer to a revocation on nobody gets in, whatever is on its way", async (t) => {
  const key = await provisionKey(edge.admin, { name: "to be revoked" });
  const ask = () => exchange({ url: edge.url, apiKey: key.text }).then(({ status }) => status);
  const early = Array.from({ length: 30 }, ask);
  const revoked = edge.admin("POST", `/keys/${key.id}/revoke`);
  const during = Array.from({ length: 30 }, ask);
  t.is((await revoked).status, 200);
  const late = await Promise.all(Array.from({ length: 30 }, ask));
  t.deepEqual(new Set(late), new Set([401]));
  for (const status of await Promise.all([...early, ...during])) t.true([200, 401].includes(status), String(status));
});

test.serial(
  "no method, field or path opens the admin API without its credential, and none breaks it with one",
  async (t) => {
    const token = edge.adminToken;
    const line = (method: string, path: string, fields: string, body = "") =>
      sendRaw(edge.url, `${method} ${path} HTTP/1.1\r\nHost: a\r\n${fields}\r\n${body}`, method === "HEAD");
    for (const path of [
      "/admin/v1/keys",
      "/admin",
      "/admin/",
      "/admin//v1/keys",
      "/v1/../admin/v1/keys",
      "/admin/v1/%6beys",
      "/admin/v1/keys?token=x&authorization=Bearer%20x",
      "/admin/v1/openapi.json",
      "/metrics",
    ]) {
      for (const method of ["GET", "HEAD", "OPTIONS", "POST", "DELETE", "TRACE", "PROPFIND"]) {
        for (const fields of [
          "",
          `X-Authorization: Bearer ${token}\r\n`,
          `Cookie: authorization=Bearer ${token}\r\n`,
          `X-Api-Key: ${token}\r\n`,
          `Authorization: Basic ${token}\r\n`,
          `Authorization: Bearer ${token}, Bearer ${token}\r\n`,
          `Authorization: Bearer ${token}\r\nAuthorization: Bearer x\r\n`,
          `Authorization: Bearer ${edge.apiKey}\r\n`,
        ]) {
          const [answer] = await line(method, path, fields);
          // Of /metrics everybody may know which methods it takes.
          const refusals = path === "/metrics" && method !== "GET" && method !== "HEAD" ? [204, 405] : [401];
          t.true(refusals.includes(answer?.status ?? 0), `${method} ${path} ${fields}: ${answer?.status}`);
        }
      }
    }
    for (const path of [
      "/ADMIN/v1/keys",
      "/%61dmin/v1/keys",
      "/admin%2fv1/keys",
      "//admin/v1/keys",
      "/v1/admin/v1/keys",
    ]) {
      t.is((await line("GET", path, `Authorization: Bearer ${token}\r\n`))[0]?.status, 404, path);
    }
    const good = `aUTHORIZATION: bEARER ${token}\r\n`;
    const withBody = `${good}Content-Type: application/json\r\nContent-Length: 2\r\n`;
    t.is((await line("GET", "/admin/v1/keys", withBody, "{}"))[0]?.status, 200);
    t.is((await line("HEAD", "/admin/v1/keys", withBody, "{}"))[0]?.status, 200);
    for (const method of ["TRACE", "OPTIONS", "PURGE", "PUT", "PROPFIND"]) {
      t.is((await line(method, "/admin/v1/keys", withBody, "{}"))[0]?.status, 404, method);
    }
  },
);

test.serial("names that would deceive a reader, or that no path can say, are not taken", async (t) => {
  for (const body of [
    { tenant: "." },
    { tenant: ".." },
    { tenant: "a/b" },
    { tenant: "a'; DROP TABLE tenants;--" },
    { tenant: "\u0430cme" },
    { tenant: "a", name: "a\u202eb" },
    { tenant: "a", name: "a\u2066b" },
    { tenant: "a", name: "a\ud800" },
    { tenant: "a", name: "a\0" },
    { tenant: "a", name: "a\nb" },
    { tenant: "a", name: "a\u2028b" },
  ]) {
    t.is((await edge.admin("POST", "/tenants", body)).status, 400, JSON.stringify(body));
  }
  const name = "'); DROP TABLE tenants;-- \u{1f469}\u200d\u{1f4bb} \u6771\u4eac";
  t.is((await edge.admin("POST", "/tenants", { tenant: "a..b", name })).status, 201);
  t.is((await edge.admin("GET", "/tenants/a..b")).body.name, name);
});

test.serial("no prompt, answer, key or credential gets into the log, on any route or error", async (t) => {
  const canary = "c4nary";
  const pass = { path: `/v1/chat/completions?q=${canary}`, headers: { "x-note": canary, cookie: canary } };
  const body = JSON.stringify({ model: "m", messages: [{ role: "user", content: canary }] });
  const page = { "content-type": "application/json", "retry-after": canary, "x-c4nary": canary };
  const limited = await provisionKey(edge.admin, { name: "limited", models: ["other"] });
  const ids: unknown[] = [];
  const note = ({ headers }: { headers: Readonly<Record<string, unknown>> }) => ids.push(headers["x-request-id"]);
  for (const status of [200, 400, 401, 429, 500, 503, 599]) {
    agent.script = (reply) => {
      reply.head(status, page);
      void reply.write(canary).then(() => reply.end());
    };
    note(await exchange(edge, { ...pass, body }));
  }
  agent.script = (reply) => {
    reply.head(200, page);
    void reply.write(canary).then(() => reply.reset());
  };
  note(await exchange(edge, { ...pass, body }));
  agent.script = (reply) => reply.reset();
  note(await exchange(edge, { ...pass, body }));
  agent.script = answerOk;
  const wrongKeys = [
    canary,
    `lg_${canary}`,
    edge.apiKey.slice(0, -6) + canary,
    `${edge.apiKey}${canary}`,
    `é${canary}`,
  ];
  for (const request of [
    ...wrongKeys.map((key) => ({ ...pass, body, authorized: false, headers: { authorization: `Bearer ${key}` } })),
    ...wrongKeys.map((key) => ({ ...pass, body, authorized: false, headers: { "x-api-key": key } })),
    { ...pass, body, authorized: false, headers: { authorization: `Bearer ${limited.text}` } },
    { ...pass, body: `{"${canary}":` },
    { ...pass, body: Buffer.from(`{"a":"${canary}\xff"}`, "latin1") },
    { ...pass, body: `"${canary}"` },
    { ...pass, body: "[".repeat(65) + canary },
    { ...pass, body, headers: { "content-type": canary } },
    { ...pass, body, headers: { host: `${canary} ${canary}` } },
    { method: "GET", path: `/v1/${canary}?${canary}` },
    { method: "DELETE", path: `/v1/models/${canary}` },
    { method: "GET", path: `/v1/models/${canary}` },
    admin({ method: "POST", path: "/tenants", body: `{"${canary}":"${canary}"}` }),
    admin({ method: "POST", path: "/tenants", body: canary }),
    admin({ method: "GET", path: `/keys?${canary}=${canary}` }),
    admin({ method: "GET", path: `/keys/${canary}` }),
    { path: "/admin/v1/keys", headers: { authorization: `Bearer ${canary}` } },
    { path: HEARTBEAT_PATH, body: canary, authorized: false },
    { path: USAGE_PATH, body: canary, authorized: false, headers: { signature: canary, "signature-input": canary } },
  ] satisfies RawRequest[]) {
    note(await exchange(edge, request));
  }
  for (const path of [HEARTBEAT_PATH, USAGE_PATH]) {
    for (const text of [
      `"${canary}"`,
      canary,
      `{"agent_id":"${canary}"}`,
      `{"agent_id":"agent-0","records":["${canary}"]}`,
    ]) {
      const answer = await postSigned(edge.url, path, await signedAsAgent(edge, 0, { path, body: text }), text);
      t.is(answer.status, 400);
      ids.push(answer.headers.get("x-request-id"));
      await answer.body?.cancel();
    }
  }
  // A line of the last one, and so all lines of those before it.
  await edge.logOf(ids.at(-1));
  const log = edge.log.join("\n");
  t.true(log.length > 1_000);
  t.notRegex(log, new RegExp(canary, "i"));
  const secret = edge.apiKey.slice("lg__".length + 32);
  for (const text of [
    secret,
    limited.text,
    edge.adminToken,
    Buffer.from(edge.signing[0]?.secret ?? []).toString("base64url"),
  ]) {
    t.true(text.length >= 16);
    t.false(log.includes(text));
  }
});
