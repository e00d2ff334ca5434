import test from "ava";
import { onlyAgent, startEdgeUnderTest } from "../helpers/edge-worker.ts";
import { exchange, type RawRequest } from "../helpers/edge-worker-client.ts";
import { answerOk } from "../helpers/scripted-agent.ts";

const listed = "https://app.example.com";
const other = "http://localhost:5173";
const closed = await startEdgeUnderTest();
const opened = await startEdgeUnderTest(1, { CORS_ORIGINS: JSON.stringify([listed, other]) });
test.after.always(() => Promise.all([closed.stop(), opened.stop()]));

const preflight = (origin: string, path = "/v1/chat/completions"): RawRequest => ({
  method: "OPTIONS",
  path,
  authorized: false,
  headers: {
    origin,
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization,content-type,x-stainless-os",
  },
});

const corsNames = (headers: object): string[] =>
  Object.keys(headers)
    .filter((name) => name.startsWith("access-control-"))
    .sort();

test.serial("by default no origin's page may call the API", async (t) => {
  for (const request of [preflight(listed), { headers: { origin: listed } }, { headers: { origin: "null" } }]) {
    const { headers } = await exchange(closed, request);
    t.deepEqual(corsNames(headers), []);
    t.is(headers.vary, undefined);
  }
});

test.serial(
  "a preflight of a listed origin is answered with what the route takes, and never with credentials",
  async (t) => {
    for (const origin of [listed, other]) {
      const { status, headers, bytes } = await exchange(opened, preflight(origin));
      t.is(status, 204);
      t.is(bytes.length, 0);
      t.is(headers["access-control-allow-origin"], origin);
      t.is(headers["access-control-allow-methods"], "POST, OPTIONS");
      t.is(headers["access-control-allow-headers"], "authorization, *");
      t.is(headers["access-control-max-age"], "7200");
      t.is(headers["access-control-allow-credentials"], undefined);
      t.is(headers.vary, "origin");
    }
    const { headers } = await exchange(opened, preflight(listed, "/v1/models/a/b"));
    t.is(headers["access-control-allow-methods"], "GET, HEAD, OPTIONS");
  },
);

test.serial("an origin that is not listed to the letter hears nothing", async (t) => {
  for (const origin of [
    "https://app.example.com.evil.example",
    "https://evil-app.example.com",
    "https://APP.example.com",
    "https://app.example.com:443",
    "https://app.example.com/",
    "http://app.example.com",
    "https://app.example.com, https://evil.example",
    "http://localhost:51730",
    "null",
    "*",
    "",
  ]) {
    for (const request of [preflight(origin), { headers: { origin } }]) {
      const { headers } = await exchange(opened, request);
      t.deepEqual(corsNames(headers), [], origin);
      t.is(headers.vary, "origin");
    }
  }
});

test.serial("a listed origin's page may read answers and errors, and the named headers of them", async (t) => {
  const agent = onlyAgent(opened);
  agent.script = (reply) => {
    reply.head(200, { "content-type": "text/event-stream", "access-control-allow-origin": "*", vary: "cookie" });
    void reply.write("data: [DONE]\n\n").then(() => reply.end());
  };
  const streamed = await exchange(opened, { headers: { origin: listed } });
  t.is(streamed.status, 200);
  t.is(streamed.text, "data: [DONE]\n\n");
  agent.script = answerOk;
  const unknownKey = await exchange(opened, { headers: { origin: listed }, authorized: false });
  t.is(unknownKey.status, 401);
  const notThere = await exchange(opened, { path: "/v1/nothing", headers: { origin: listed } });
  t.is(notThere.status, 404);
  for (const { headers } of [streamed, unknownKey, notThere]) {
    t.deepEqual(corsNames(headers), ["access-control-allow-origin", "access-control-expose-headers"]);
    t.is(headers["access-control-allow-origin"], listed);
    t.is(headers.vary, "origin");
    const exposed = String(headers["access-control-expose-headers"]).split(", ");
    for (const name of ["x-request-id", "retry-after", "retry-after-ms", "x-ratelimit-remaining-tokens"]) {
      t.true(exposed.includes(name), name);
    }
    t.false(exposed.includes("*"));
  }
});

test.serial("admin API, agents' endpoints and health are opened to no page", async (t) => {
  for (const path of ["/admin/v1/keys", "/internal/v1/usage", "/internal/v1/heartbeat", "/healthz"]) {
    for (const request of [preflight(listed, path), { ...preflight(listed, path), method: "POST" }]) {
      t.deepEqual(corsNames((await exchange(opened, request)).headers), [], path);
    }
  }
});

test.serial("a preflight of a path that is not there, and an OPTIONS that is none, open nothing", async (t) => {
  const notThere = await exchange(opened, preflight(listed, "/v1/nothing"));
  t.is(notThere.status, 404);
  t.is(notThere.headers["access-control-allow-methods"], undefined);
  const plain = await exchange(opened, { method: "OPTIONS", headers: { origin: listed }, authorized: false });
  t.is(plain.status, 204);
  t.is(plain.headers["access-control-allow-methods"], undefined);
});
