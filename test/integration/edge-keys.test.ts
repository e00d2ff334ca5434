/** API keys through the real worker, object and database: who gets in, for what, and what they are told. */
import { randomBytes } from "node:crypto";
import test from "ava";
import { provisionKey } from "../helpers/admin-client.ts";
import { onlyAgent, startEdgeUnderTest } from "../helpers/edge-worker.ts";
import { exchange, type RawRequest } from "../helpers/edge-worker-client.ts";
import { inventedKey, undefinedKey, withOtherSecret } from "../helpers/foreign-keys.ts";
import { answerOk } from "../helpers/scripted-agent.ts";

const keyIdSecret = randomBytes(32).toString("base64url");
const edge = await startEdgeUnderTest(1, { KEY_ID_SECRET: keyIdSecret, LOST_AFTER_MS: "1" });
const agent = onlyAgent(edge);
test.after.always(() => edge.stop());
test.beforeEach(() => {
  agent.script = answerOk;
});

const POLL_MS = 20;
/** Of keys that expire during a test: long enough to be made and used on a busy machine. */
const LIFE_MS = 3000;
const body = JSON.stringify({ model: "m", max_tokens: 50 });
const estimate = Math.ceil(body.length / 4) + 50;

const as = (apiKey: string, options: RawRequest = {}) => exchange({ url: edge.url, apiKey }, { body, ...options });
const errorOf = (text: string) => (JSON.parse(text) as { error: { code: string } }).error;
const limitsOf = ({ headers }: { headers: Readonly<Record<string, unknown>> }) =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => name.startsWith("x-ratelimit-")));

/** Asks the ledger until it has a row about a lost request of the key: then the key's state has been written. */
const untilLost = async (keyId: string): Promise<Record<string, unknown>> => {
  for (;;) {
    const row = await edge.worker.ledger.prepare("SELECT * FROM lost_requests WHERE key_id = ?").bind(keyId).first();
    if (row !== null) return row;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
};

test.serial("field report 14: a key that has just been used is refused from its revocation on", async (t) => {
  const key = await provisionKey(edge.admin);
  for (let warm = 0; warm < 5; warm += 1) t.is((await as(key.text)).status, 200);
  const revoked = await edge.admin("POST", `/keys/${key.id}/revoke`);
  t.is(revoked.status, 200);
  const before = agent.requests.length;
  t.is((await as(key.text)).status, 401);
  t.is(agent.requests.length, before);
});

test.serial("field report 14: a key is taken up to its expiry and not after it", async (t) => {
  const expiresAtMs = Date.now() + LIFE_MS;
  const key = await provisionKey(edge.admin, { expires_at_ms: expiresAtMs });
  const seen = new Set<number>();
  for (let sentAtMs = 0; sentAtMs < expiresAtMs; ) {
    sentAtMs = Date.now();
    const { status } = await as(key.text);
    const answeredAtMs = Date.now();
    seen.add(status);
    if (sentAtMs >= expiresAtMs) t.is(status, 401);
    else if (answeredAtMs < expiresAtMs) t.is(status, 200);
  }
  t.deepEqual(seen, new Set([200, 401]));
});

test.serial("while a key is rotated both its secrets are taken, without an overlap only the new one", async (t) => {
  const key = await provisionKey(edge.admin);
  const rotate = async (overlap_s: number): Promise<string> =>
    (await edge.admin("POST", `/keys/${key.id}/rotate`, { overlap_s })).body.key;
  const second = await rotate(60);
  t.deepEqual([(await as(key.text)).status, (await as(second)).status], [200, 200]);
  const third = await rotate(0);
  t.deepEqual([(await as(key.text)).status, (await as(second)).status, (await as(third)).status], [401, 401, 200]);
});

test.serial(
  "field report 16: a request that tokens a minute refuse leaves the requests a minute as they were",
  async (t) => {
    const limits = { requests_per_minute: 10, tokens_per_minute: 2 * estimate - 1 };
    const key = await provisionKey(edge.admin, { limits });
    const first = await as(key.text);
    t.is(first.status, 200);
    t.like(limitsOf(first), {
      "x-ratelimit-limit-requests": "10",
      "x-ratelimit-remaining-requests": "9",
      "x-ratelimit-limit-tokens": String(2 * estimate - 1),
      "x-ratelimit-remaining-tokens": String(estimate - 1),
    });
    for (let again = 0; again < 3; again += 1) {
      const refused = await as(key.text);
      t.is(refused.status, 429);
      t.like(limitsOf(refused), { "x-ratelimit-remaining-requests": "9" });
      const [seconds, ms] = [Number(refused.headers["retry-after"]), Number(refused.headers["retry-after-ms"])];
      t.true(seconds >= 1 && seconds <= 61 && seconds === Math.ceil(ms / 1000));
      t.regex(String(refused.headers["x-ratelimit-reset-tokens"]), /^(\d+m)?\d+m?s$/);
    }
  },
);

test.serial("a key without limits is told of none, and an agent's refusal still tells a limited one", async (t) => {
  t.deepEqual(limitsOf(await as(edge.apiKey)), {});
  const key = await provisionKey(edge.admin, { limits: { requests_per_minute: 10 } });
  agent.script = (reply) => {
    reply.head(400, { "content-type": "application/json" });
    void reply.write("{}").then(() => reply.end());
  };
  const answer = await as(key.text);
  t.is(answer.status, 400);
  t.like(limitsOf(answer), { "x-ratelimit-remaining-requests": "9" });
});

test.serial("a month's tokens that do not suffice are a 429 that no retry helps against", async (t) => {
  const key = await provisionKey(edge.admin, { limits: { tokens_per_month: estimate - 1 } });
  const answer = await as(key.text);
  t.is(answer.status, 429);
  t.is(errorOf(answer.text).code, "insufficient_quota");
  t.is(answer.headers["x-should-retry"], "false");
  t.is(answer.headers["retry-after"], undefined);
  // Models can still be listed.
  t.is((await as(key.text, { method: "GET", path: "/v1/models" })).status, 200);
});

test.serial(
  "a key without the scope gets a 403, one bound to other models a 404, and neither reaches an agent",
  async (t) => {
    const lister = await provisionKey(edge.admin, { scopes: ["models"] });
    const bound = await provisionKey(edge.admin, { models: ["only"] });
    const before = agent.requests.length;
    const noScope = await as(lister.text);
    t.deepEqual([noScope.status, errorOf(noScope.text).code], [403, "permission_denied"]);
    for (const other of [body, JSON.stringify({ model: "other" }), JSON.stringify({ model: 7 }), "{}"]) {
      const noModel = await as(bound.text, { body: other });
      t.deepEqual([noModel.status, errorOf(noModel.text).code], [404, "model_not_found"], other);
    }
    t.is(agent.requests.length, before);
    t.is((await as(bound.text, { body: JSON.stringify({ model: "only" }) })).status, 200);
    t.is((await as(lister.text, { method: "GET", path: "/v1/models" })).status, 200);
  },
);

test.serial("tenants have different salts, keys of one tenant the same", async (t) => {
  const saltOf = async (apiKey: string) => {
    await as(apiKey);
    return new Map(agent.requests.at(-1)?.headers).get("x-lockgate-tenant-salt");
  };
  const [one, two] = [await provisionKey(edge.admin), await provisionKey(edge.admin)];
  const other = await provisionKey(edge.admin, { tenant: "other" });
  t.regex((await saltOf(one.text)) ?? "", /^[0-9a-f]{32}$/);
  t.is(await saltOf(one.text), await saltOf(two.text));
  t.not(await saltOf(one.text), await saltOf(other.text));
});

test.serial(
  "field report 32: whatever is wrong with a key, the answer is the same 401, and the log tells",
  async (t) => {
    const good = await provisionKey(edge.admin);
    const revoked = await provisionKey(edge.admin);
    await edge.admin("POST", `/keys/${revoked.id}/revoke`);
    const expiresAtMs = Date.now() + LIFE_MS;
    const expired = await provisionKey(edge.admin, { expires_at_ms: expiresAtMs });
    await new Promise((resolve) => setTimeout(resolve, expiresAtMs + 1 - Date.now()));
    const before = agent.requests.length;
    const bodies = new Set<string>();
    const bearer = (key: string) => ({ authorization: `Bearer ${key}` });
    for (const [headers, cause] of [
      [{}, "missing"],
      [{ authorization: "" }, "missing"],
      [{ authorization: "Bearer " }, "malformed"],
      [{ authorization: `Basic ${good.text}` }, "wrong_scheme"],
      [{ authorization: [`Bearer ${good.text}`, `Bearer ${good.text}`] }, "two_credentials"],
      [{ ...bearer(good.text), "x-api-key": "another" }, "two_credentials"],
      [bearer("sk-something"), "not_a_key"],
      [bearer(inventedKey()), "invented_id"],
      [bearer(await undefinedKey(keyIdSecret)), "no_such_key"],
      [bearer(withOtherSecret(good.text)), "wrong_secret"],
      [bearer(expired.text), "expired"],
      [bearer(revoked.text), "revoked"],
    ] as const) {
      const { authorization, ...rest } = headers as { authorization?: string | readonly string[] };
      const sent = { ...rest, ...(authorization === undefined ? {} : { authorization: authorization as string }) };
      const answer = await as("", { headers: sent, authorized: false });
      t.is(answer.status, 401, cause);
      t.is((await edge.logOf(answer.headers["x-request-id"])).cause, cause);
      const { "x-request-id": _, date: __, ...alike } = answer.headers;
      bodies.add(JSON.stringify([alike, answer.text]));
    }
    t.is(bodies.size, 1, [...bodies].join("\n"));
    t.is(agent.requests.length, before);
  },
);

test.serial("keys with invented ids make no object", async (t) => {
  const before = await edge.worker.objectCount("KeyGuard");
  t.true(before > 0);
  for (let guess = 0; guess < 200; guess += 1) t.is((await as(inventedKey())).status, 401);
  t.is(await edge.worker.objectCount("KeyGuard"), before);
});

test.serial("a request whose record never comes is in the ledger as lost, and no longer open", async (t) => {
  const key = await provisionKey(edge.admin);
  const answer = await as(key.text);
  const row = await untilLost(key.id);
  t.like(row, { request_id: answer.headers["x-request-id"], agent_id: "agent-0", estimated_tokens: estimate });
  t.deepEqual((await edge.admin("GET", `/keys/${key.id}`)).body.guard.open_requests, []);
});

test.serial("an object that lost its memory remembers what was written: its limits, and its key", async (t) => {
  const key = await provisionKey(edge.admin, { limits: { requests_per_minute: 2 } });
  t.is((await as(key.text)).status, 200);
  await untilLost(key.id);
  await edge.worker.evict("KeyGuard", key.id);
  const second = await as(key.text);
  t.is(second.status, 200);
  t.like(limitsOf(second), { "x-ratelimit-remaining-requests": "0" });
  t.is((await as(key.text)).status, 429);
});

test.serial(
  "an object that lost its memory right after a revocation, or a spent budget, has not forgotten it",
  async (t) => {
    const key = await provisionKey(edge.admin);
    t.is((await as(key.text)).status, 200);
    await edge.admin("POST", `/keys/${key.id}/revoke`);
    await edge.worker.evict("KeyGuard", key.id);
    t.is((await as(key.text)).status, 401);
  },
);
