import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { USAGE_PATH } from "@lockgate/shared-types";
import test from "ava";
import { onlyAgent, startEdgeUnderTest } from "../helpers/edge-worker.ts";
import { exchange, type RawRequest } from "../helpers/edge-worker-client.ts";
import { beat } from "../helpers/fleet-heartbeats.ts";
import { sendRaw } from "../helpers/raw-http.ts";
import { answerOk } from "../helpers/scripted-agent.ts";
import { pickSeed, seededRandom } from "../helpers/seeded-random.ts";
import { startTrapServer } from "../helpers/trap-server.ts";

const edge = await startEdgeUnderTest();
const agent = onlyAgent(edge);
const trap = await startTrapServer();
test.after.always(() => Promise.all([edge.stop(), trap.stop()]));
test.beforeEach(() => {
  agent.script = answerOk;
});

const codeOf = (text: string): unknown => (JSON.parse(text) as { error?: { code?: unknown } }).error?.code;
const bearer = { authorization: `Bearer ${edge.adminToken}` };
const admin = (options: RawRequest): RawRequest => ({
  ...options,
  path: `/admin/v1${options.path ?? ""}`,
  headers: { ...bearer, ...options.headers },
  authorized: false,
});

test.serial("every answer has the security headers, and nobody keeps an error or an admin answer", async (t) => {
  const eventStream = { "content-type": "text/event-stream", "cache-control": "no-cache, no-transform" };
  const answers: readonly [what: string, status: number, request: RawRequest][] = [
    ["health", 200, { method: "GET", path: "/healthz", authorized: false }],
    ["options", 204, { method: "OPTIONS" }],
    ["no such path", 404, { method: "GET", path: "/" }],
    ["no key", 401, { authorized: false }],
    ["no JSON", 400, { body: "no" }],
    ["another type", 415, { headers: { "content-type": "text/plain" } }],
    ["another method", 405, { method: "DELETE" }],
    ["a bad host", 400, { headers: { host: "a b" } }],
    ["internal", 401, { path: USAGE_PATH, authorized: false }],
    ["admin, no credential", 401, { path: "/admin/v1/keys", method: "GET" }],
    ["admin", 200, admin({ path: "/keys", method: "GET" })],
    ["admin, not there", 404, admin({ path: "/nothing", method: "GET" })],
    ["an agent's answer", 200, {}],
  ];
  for (const [what, status, request] of answers) {
    const { headers, ...answer } = await exchange(edge, request);
    t.is(answer.status, status, what);
    t.is(headers["x-content-type-options"], "nosniff", what);
    t.is(headers["content-security-policy"], "default-src 'none'; frame-ancestors 'none'; sandbox", what);
    t.is(headers["referrer-policy"], "no-referrer", what);
    t.is(headers["cache-control"], "no-store", what);
    t.is(headers["strict-transport-security"], undefined, what);
    t.regex(String(headers["x-request-id"]), /^req_[0-9a-f]{32}$/, what);
  }
  agent.script = (reply) => {
    reply.head(200, eventStream);
    void reply.write("data: x\r\n\r\n").then(() => reply.end());
  };
  const stream = await exchange(edge);
  t.is(stream.text, "data: x\r\n\r\n");
  t.like(stream.headers, { ...eventStream, "x-content-type-options": "nosniff" });
});

test.serial("nothing that a request says picks a host", async (t) => {
  const to = trap.authority;
  const auth = `Authorization: Bearer ${edge.apiKey}\r\n`;
  const before = agent.requests.length;
  for (const [target, host, fields] of [
    [`http://${to}/v1/models`, to, ""],
    [`http://${to}/v1/models`, "edge.example", ""],
    [`ftp://${to}/v1/models`, "edge.example", ""],
    ["/v1/models", to, ""],
    [`/v1/models?url=http://${to}/&host=${to}&agent=http://${to}`, "edge.example", ""],
    ["/v1/models", "edge.example", `X-Forwarded-Host: ${to}\r\nX-Forwarded-Proto: http\r\nForwarded: host=${to}\r\n`],
    ["/v1/models", "edge.example", `X-Original-URL: http://${to}/\r\nX-Rewrite-URL: http://${to}/\r\n`],
    [
      "/v1/models",
      "edge.example",
      `X-Lockgate-Agent: http://${to}\r\nX-Lockgate-Model: http://${to}\r\nVia: ${to}\r\n`,
    ],
    [`/v1/models/http://${to}/`, "edge.example", ""],
    [`/v1/models/@${to}/`, "edge.example", ""],
  ] as const) {
    const [answer] = await sendRaw(edge.url, `GET ${target} HTTP/1.1\r\nHost: ${host}\r\n${auth}${fields}\r\n`);
    t.is(answer?.status, 200, `${target} ${host} ${fields}`);
    t.is(new Map(agent.requests.at(-1)?.headers).get("host"), new URL(agent.url).host);
  }
  t.is(agent.requests.length, before + 10);
  t.deepEqual(agent.refusals, []);
  for (const target of [`//${to}/v1/models`, `@${to}/v1/models`, `/\\${to}/v1/models`, `${to}`]) {
    const [answer] = await sendRaw(edge.url, `GET ${target} HTTP/1.1\r\nHost: edge.example\r\n${auth}\r\n`);
    t.true([400, 404].includes(answer?.status ?? 0), target);
  }
  const body = JSON.stringify({ model: "m", url: `http://${to}`, base_url: `http://${to}`, agent: to });
  t.is((await exchange(edge, { body })).status, 200);
  // A heartbeat has no field for an address; what it says all the same is dropped.
  t.is(await beat(edge, 0, { models: ["m"], url: `http://${to}`, address: to } as object), 204);
  t.is((await exchange(edge)).status, 200);
  t.is(trap.connections, 0);
});

test.serial("an agent's redirect is followed nowhere and shown to nobody", async (t) => {
  for (const status of [301, 302, 303, 307, 308]) {
    agent.script = (reply) => {
      reply.head(status, { location: `http://${trap.authority}/`, "content-type": "application/json" });
      reply.end();
    };
    const { headers, ...answer } = await exchange(edge);
    t.is(answer.status, 502);
    t.is(headers.location, undefined);
    t.false(answer.text.includes(trap.authority));
  }
  t.is(trap.connections, 0);
});

test.serial("an answer that no agent gives never reaches a client, whatever its status", async (t) => {
  const page = { "content-type": "text/html", server: "inner-7.example", "set-cookie": "a=b" };
  const json = { ...page, "content-type": "application/json" };
  for (const [status, headers] of [
    ...[200, 400, 404, 408, 413, 429, 500, 503].map((code) => [code, page] as const),
    ...[201, 206, 207, 402, 407, 418, 431, 451, 501, 505, 511, 599, 600, 999].map((code) => [code, json] as const),
  ]) {
    agent.script = (reply) => {
      reply.head(status, headers);
      void reply.write("<b>inner-7.example</b>").then(() => reply.end());
    };
    const answer = await exchange(edge);
    t.is(answer.status, 502, String(status));
    t.is(codeOf(answer.text), "upstream_failed");
    t.notRegex(JSON.stringify([answer.headers, answer.text]), /inner-7|set-cookie|html/);
    // Both tries may have counted against the agent; two good answers make up for that.
    agent.script = answerOk;
    for (let good = 0; good < 2; good += 1) t.is((await exchange(edge)).status, 200);
  }
});

test.serial("an agent's header that breaks the message is no header of the client's", async (t) => {
  let value = "";
  const raw = createServer((socket) => {
    socket.once("data", () => {
      socket.end(
        `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nretry-after: ${value}\r\ncontent-length: 2\r\n\r\n{}`,
      );
    });
    socket.on("error", () => undefined);
  }).listen(0, "127.0.0.1");
  await once(raw, "listening");
  const { port } = raw.address() as AddressInfo;
  const AGENTS = JSON.stringify([{ name: "raw", url: `http://127.0.0.1:${port}`, keyIds: ["k1"] }]);
  const AGENT_SIGNING_KEYS = JSON.stringify({ k1: Buffer.alloc(32, 1).toString("base64url") });
  const fronted = await startEdgeUnderTest(0, { AGENTS, AGENT_SIGNING_KEYS });
  try {
    const bytes = `GET /v1/models HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${fronted.apiKey}\r\n\r\n`;
    for (const [line, statuses] of [
      ["1", [200]],
      ["x\rset-cookie: a=b", [502]],
      ["x\0y", [502]],
      ["x\r\n set-cookie: a=b", [502]],
      ["x\r\nset-cookie: a=b", [200]],
    ] as const) {
      value = line;
      const answers = await sendRaw(fronted.url, bytes);
      t.deepEqual(
        answers.map(({ status }) => status),
        [...statuses],
        JSON.stringify(line),
      );
      t.false(answers[0]?.headers.has("set-cookie"), JSON.stringify(line));
      value = "1";
      for (let good = 0; good < 2; good += 1) await sendRaw(fronted.url, bytes);
    }
  } finally {
    await fronted.stop();
    raw.close();
  }
});

test.serial("an agent gets these fields of a request and no others, however many the client sends", async (t) => {
  const trace = { traceparent: `00-${"1".repeat(32)}-${"2".repeat(16)}-01`, tracestate: "a=b" };
  await exchange(edge, {
    body: '{"model":"m"}',
    headers: {
      ...trace,
      "x-api-key": edge.apiKey,
      "x-request-id": "a\tb\u00e9",
      "x-stainless-timeout": "600",
      "x-stainless-os": "Linux",
      accept: "x".repeat(20_000),
      cookie: "a=b",
      "content-digest": "sha-256=:AAAA:",
      "signature-input": "lockgate=()",
      "cf-access-client-id": "a",
      "cf-connecting-ip": "10.0.0.1",
      te: "trailers",
      range: "bytes=0-1",
      "if-none-match": "*",
      origin: "https://a.example",
      "x-http-method-override": "DELETE",
    },
  });
  t.deepEqual(
    agent.requests
      .at(-1)
      ?.headers.map(([name]) => name)
      .sort(),
    [
      "accept-encoding",
      "content-digest",
      "content-length",
      "content-type",
      "host",
      "signature",
      "signature-input",
      "traceparent",
      "tracestate",
      "x-lockgate-deadline",
      "x-lockgate-key-id",
      "x-lockgate-model",
      "x-lockgate-request-id",
      "x-lockgate-tenant-salt",
    ],
  );
  for (const tracestate of ["a=b\u00e9", "no members", "a=b,".repeat(40), `a=${"b".repeat(300)}`]) {
    await exchange(edge, { headers: { traceparent: trace.traceparent, tracestate } });
    t.false(
      agent.requests.at(-1)?.headers.some(([name]) => name === "tracestate"),
      tracestate,
    );
  }
  t.deepEqual(agent.refusals, []);
});

test.serial(
  "a path and query at the bound reach the agent under a good signature, one character more is a 413",
  async (t) => {
    for (const path of [`/v1/models/${"p".repeat(8_192 - 11)}`, `/v1/models?${"q".repeat(8_192 - 11)}`]) {
      t.is((await exchange(edge, { method: "GET", path })).status, 200);
      t.is(agent.requests.at(-1)?.url, path);
      const { status, text } = await exchange(edge, { method: "GET", path: `${path}x` });
      t.is(status, 413);
      t.is(codeOf(text), "request_too_large");
    }
    t.deepEqual(agent.refusals, []);
  },
);

test.serial("whatever visible characters path and query have, the agent takes the edge's signature", async (t) => {
  const seed = pickSeed();
  t.log(`LOCKGATE_SEED=${seed}`);
  const random = seededRandom(seed);
  const text = (most: number): string =>
    Array.from({ length: Math.floor(random() * most) }, () =>
      String.fromCharCode(0x21 + Math.floor(random() * 94)),
    ).join("");
  let reached = 0;
  for (let round = 0; round < 300; round += 1) {
    const target = random() < 0.5 ? `/v1/models/${text(12)}?${text(24)}` : `/v1/models?${text(40)}`;
    const before = agent.requests.length;
    const [answer] = await sendRaw(
      edge.url,
      `GET ${target} HTTP/1.1\r\nHost: edge.example\r\nAuthorization: Bearer ${edge.apiKey}\r\n\r\n`,
    );
    const seen = agent.requests.slice(before);
    // Some of these are none in an address: the runtime refuses them, or they lead out of the route.
    const refused = seen.length === 0 && [400, 404].includes(answer?.status ?? 0);
    t.true(refused || (seen.length === 1 && answer?.status === 200), `${answer?.status} ${target}`);
    reached += seen.length;
  }
  t.true(reached > 100, String(reached));
  t.deepEqual(agent.refusals, []);
});

test.serial("a body nested as deep as may be passes, one level more is refused before an agent sees it", async (t) => {
  const nested = (levels: number) => `{"a":${"[".repeat(levels - 1)}${"]".repeat(levels - 1)}}`;
  t.is((await exchange(edge, { body: nested(64) })).status, 200);
  const before = agent.requests.length;
  for (const body of [nested(65), "[".repeat(4 * 1024 * 1024)]) {
    const { status, text } = await exchange(edge, { body });
    t.is(status, 400);
    t.is(codeOf(text), "invalid_json");
  }
  t.is(agent.requests.length, before);
});
