import { MAX_BODY_BYTES } from "@lockgate/shared-types";
import test from "ava";
import { onlyAgent, startEdgeUnderTest } from "../helpers/edge-worker.ts";
import { exchange, type RawRequest } from "../helpers/edge-worker-client.ts";
import { answerOk } from "../helpers/scripted-agent.ts";

const edge = await startEdgeUnderTest();
const agent = onlyAgent(edge);
test.after.always(() => edge.stop());
test.beforeEach(() => {
  agent.script = answerOk;
});

const key = edge.apiKey;
const headersOf = (index = -1) => new Map(agent.requests.at(index)?.headers);

/** Sends a request that must not reach the agent. */
const refused = async (options: RawRequest) => {
  const before = agent.requests.length;
  const answer = await exchange(edge, options);
  return {
    ...answer,
    error: (JSON.parse(answer.text) as { error: unknown }).error,
    reached: agent.requests.length - before,
  };
};

test.serial("every bad credential gets the same 401, and the log tells them apart", async (t) => {
  const bodies = new Set<string>();
  const causes = new Set<unknown>();
  for (const headers of [
    {},
    { authorization: "" },
    { authorization: "Bearer" },
    { authorization: "Bearer wrong" },
    { authorization: `Basic ${key}` },
    { authorization: key },
    { authorization: [`Bearer ${key}`, `Bearer ${key}`] },
    { authorization: `Bearer ${key}, Bearer ${key}` },
    { authorization: `Bearer ${key}`, "x-api-key": "other" },
    { authorization: "Bearer other", "x-api-key": key },
    { "x-api-key": "" },
    { "x-api-key": [key, key] },
    { "x-api-key": `${key},${key}` },
  ]) {
    const answer = await refused({ headers, authorized: false });
    t.is(answer.status, 401, JSON.stringify(headers));
    t.is(answer.reached, 0);
    bodies.add(answer.text);
    causes.add((await edge.logOf(answer.headers["x-request-id"])).cause);
  }
  t.is(bodies.size, 1);
  t.deepEqual(JSON.parse([...bodies][0] ?? ""), {
    error: {
      message: "No valid API key was given. Send one as 'Authorization: Bearer <key>'.",
      type: "invalid_request_error",
      param: null,
      code: "invalid_api_key",
    },
  });
  t.deepEqual(causes, new Set(["missing", "malformed", "not_a_key", "wrong_scheme", "two_credentials"]));
});

test.serial("the key is taken as a bearer in any case, as x-api-key, or as both if they agree", async (t) => {
  for (const headers of [
    { authorization: `Bearer ${key}` },
    { authorization: `bearer ${key}` },
    { authorization: `BEARER  ${key}` },
    { "x-api-key": key },
    { authorization: `Bearer ${key}`, "x-api-key": key },
  ]) {
    t.is((await exchange(edge, { headers, authorized: false })).status, 200, JSON.stringify(headers));
  }
});

test.serial("the agent accepts the edge's signature and gets the body unchanged, over every route", async (t) => {
  const body = Buffer.from('{ "model": "m",\r\n "messages": [ "\\u00e9", "é" ] }');
  for (const options of [
    { body },
    { path: "/v1/chat/completions?a=1&b=%20x&c", body },
    { method: "GET", path: "/v1/models" },
    { method: "GET", path: "/v1/models/org%2Fname?x=1" },
    { method: "GET", path: "/v1/models/org/name" },
    { method: "HEAD", path: "/v1/models" },
  ]) {
    t.is((await exchange(edge, options)).status, 200, JSON.stringify(options));
    const seen = agent.requests.at(-1);
    t.is(seen?.method, options.method ?? "POST");
    t.is(seen?.url, options.path ?? "/v1/chat/completions");
    t.deepEqual(seen?.body, options.body ?? Buffer.alloc(0));
  }
  t.deepEqual(agent.refusals, []);
});

test.serial("a direct request that no edge signed is refused by the agent", async (t) => {
  const response = await fetch(`${agent.url}/v1/models`);
  t.is(response.status, 401);
  t.is(agent.refusals.pop(), "missing_signature");
});

test.serial("a client's x-lockgate headers, key and other headers never reach the agent", async (t) => {
  await exchange(edge, {
    headers: {
      "x-lockgate-key-id": "somebody",
      "X-Lockgate-Tenant-Salt": "00",
      "x-lockgate-debug": "1",
      "x-lockgate-deadline": "1",
      "x-forwarded-for": "10.0.0.1",
      cookie: "a=b",
      signature: "lockgate=:AAAA:",
    },
  });
  const seen = headersOf();
  t.is(seen.get("x-lockgate-key-id"), edge.keyId);
  t.regex(seen.get("x-lockgate-tenant-salt") ?? "", /^[0-9a-f]{32}$/);
  for (const name of ["x-lockgate-debug", "x-lockgate-deadline", "authorization", "x-forwarded-for", "cookie"]) {
    t.false(seen.has(name), name);
  }
  t.deepEqual(agent.refusals, []);
});

test.serial("the request id is the edge's own; a client's goes to the log alone", async (t) => {
  const answer = await exchange(edge, { headers: { "x-request-id": "mine" } });
  const id = String(answer.headers["x-request-id"]);
  t.regex(id, /^req_[0-9a-f]{32}$/);
  t.is(headersOf().get("x-lockgate-request-id"), id);
  t.like(await edge.logOf(id), {
    event: "answered",
    requestId: id,
    clientRequestId: "mine",
    keyId: edge.keyId,
    status: 200,
  });
  const next = await exchange(edge);
  t.not(next.headers["x-request-id"], id);
});

test.serial("a client's time-out becomes a deadline", async (t) => {
  const beforeMs = Date.now();
  await exchange(edge, { headers: { "x-stainless-timeout": "30" } });
  const deadline = Number(headersOf().get("x-lockgate-deadline"));
  t.true(deadline >= beforeMs + 30_000 && deadline <= Date.now() + 30_000, String(deadline));
});

test.serial(
  "the question for the place in the queue goes on to the agent, and no other text in its field",
  async (t) => {
    await exchange(edge, { headers: { "x-queue-position": "1" } });
    t.is(headersOf().get("x-queue-position"), "1");
    await exchange(edge, { headers: { "x-queue-position": "1, 2" } });
    t.false(headersOf().has("x-queue-position"));
  },
);

test.serial("a body at the limit passes; one byte more is refused, announced or not", async (t) => {
  const largest = Buffer.alloc(MAX_BODY_BYTES, 0x20);
  largest.write("{}");
  t.is((await exchange(edge, { body: largest })).status, 200);
  t.is(agent.requests.at(-1)?.body.length, MAX_BODY_BYTES);

  const before = agent.requests.length;
  const announced = await refused({ body: Buffer.alloc(MAX_BODY_BYTES + 1, 0x20) });
  t.is(announced.status, 413);
  t.like(announced.error, { code: "request_too_large" });
  const chunked = await refused({
    body: Buffer.alloc(MAX_BODY_BYTES + 1, 0x20),
    headers: { "transfer-encoding": "chunked" },
  });
  t.is(chunked.status, 413);
  t.is(agent.requests.length, before);
});

test.serial("a refused upload gets to read why, however much it sends before it listens", async (t) => {
  const body = Buffer.alloc(2 * MAX_BODY_BYTES, 0x20);
  for (let upload = 0; upload < 10; upload += 1) {
    t.is((await exchange(edge, { body })).status, 413);
    t.is((await exchange(edge, { body, headers: { authorization: "Bearer wrong" } })).status, 401);
    t.is((await exchange(edge, { body, path: "/v1/nowhere" })).status, 404);
  }
});

test.serial("only plain JSON is taken", async (t) => {
  for (const type of [
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "application/jsonx",
    "",
  ]) {
    const answer = await refused({ headers: { "content-type": type } });
    t.is(answer.status, 415, type);
    t.like(answer.error, { code: "unsupported_media_type" });
    t.is(answer.reached, 0);
  }
  t.is((await refused({ headers: { "content-encoding": "gzip" } })).status, 415);
  for (const type of ["application/json", "Application/JSON; charset=utf-8"]) {
    t.is((await exchange(edge, { headers: { "content-type": type } })).status, 200, type);
  }
});

test.serial("an unknown route is 404, also one that only looks like a known one", async (t) => {
  for (const path of [
    "/",
    "/v1",
    "/v1/models/",
    "/v1/files",
    "/v1/models/../../metric",
    "/v1/models/%2e%2e/%2e%2e/metric",
    "//v1/models",
  ]) {
    const answer = await refused({ method: "GET", path });
    t.is(answer.status, 404, path);
    t.like(answer.error, { code: "not_found" });
    t.is(answer.reached, 0, path);
  }
});

test.serial("a wrong method is 405 and OPTIONS tells the right ones", async (t) => {
  for (const [path, method, allow] of [
    ["/v1/chat/completions", "GET", "POST, OPTIONS"],
    ["/v1/chat/completions", "DELETE", "POST, OPTIONS"],
    ["/v1/models", "POST", "GET, HEAD, OPTIONS"],
    ["/v1/models/x", "PUT", "GET, HEAD, OPTIONS"],
    ["/healthz", "POST", "GET, HEAD, OPTIONS"],
    ["/metrics", "POST", "GET, HEAD, OPTIONS"],
  ] as const) {
    const answer = await refused({ path, method });
    t.is(answer.status, 405, `${method} ${path}`);
    t.is(answer.headers.allow, allow);
    t.like(answer.error, { code: "method_not_allowed" });
    t.is(answer.reached, 0);
    const options = await exchange(edge, { path, method: "OPTIONS", authorized: false });
    t.is(options.status, 204);
    t.is(options.headers.allow, allow);
  }
});

test.serial("health is public and says nothing else", async (t) => {
  const answer = await exchange(edge, { method: "GET", path: "/healthz", authorized: false });
  t.is(answer.status, 200);
  t.is(answer.text, '{"status":"ok"}');
  const head = await exchange(edge, { method: "HEAD", path: "/healthz", authorized: false });
  t.is(head.status, 200);
  t.is(head.bytes.length, 0);
});

test.serial(
  "a misconfigured edge answers 500 without saying why, and the log names the variable but no secret",
  async (t) => {
    const broken = await startEdgeUnderTest(1, { AGENT_SIGNING_KEYS: '{"k1":"s3cret"}' });
    try {
      for (const attempt of [1, 2]) {
        const answer = await exchange(broken);
        t.is(answer.status, 500, String(attempt));
        t.like(JSON.parse(answer.text), { error: { code: "internal_error" } });
        t.notRegex(answer.text, /s3cret|AGENT_SIGNING_KEYS/);
        t.regex(String((await broken.logOf(answer.headers["x-request-id"])).hint), /AGENT_SIGNING_KEYS/);
      }
      t.is((await exchange(broken, { method: "GET", path: "/healthz" })).status, 200);
      const logged = JSON.stringify(broken.log);
      t.regex(logged, /AGENT_SIGNING_KEYS/);
      t.notRegex(logged, /s3cret/);
    } finally {
      await broken.stop();
    }
  },
);

test.serial("no key of a client and no body gets into the log", async (t) => {
  const good = await exchange(edge, { body: '{"marker":"b0dy"}', headers: { "x-api-key": key } });
  const bad = await exchange(edge, { headers: { authorization: "Bearer wr0ng-key" }, authorized: false });
  t.like(await edge.logOf(good.headers["x-request-id"]), { event: "answered" });
  t.like(await edge.logOf(bad.headers["x-request-id"]), { event: "refused" });
  const logged = edge.log.join("\n");
  t.false(logged.includes(key));
  t.notRegex(logged, /b0dy|wr0ng-key/);
});
