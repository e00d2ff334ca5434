import test from "ava";
import { loadConfig, parseConfig, UPSTREAM_HEADERS_TIMEOUT_MS } from "../../edge/src/config.ts";
import type { EnvTexts as Env } from "../../edge/src/env-texts.ts";

const good: Env = {
  AGENTS: '[{"name":"gpu-1","url":"https://gpu-1.example.com/","keyIds":["k1"]}]',
  AGENT_SIGNING_KEYS: JSON.stringify({ k1: Buffer.alloc(32, 1).toString("base64url") }),
  KEY_ID_SECRET: Buffer.alloc(32, 2).toString("base64url"),
  TENANT_SALT_SECRET: Buffer.alloc(32, 3).toString("base64url"),
};

test("a good configuration parses, the wait for headers has a default", async (t) => {
  const parsed = await parseConfig(good);
  if (!parsed.ok) return t.fail(parsed.hint);
  t.like(parsed.config.agents[0], { name: "gpu-1", url: "https://gpu-1.example.com" });
  t.is(parsed.config.agents[0]?.keys[0].keyId, "k1");
  t.is(parsed.config.upstreamHeadersTimeoutMs, UPSTREAM_HEADERS_TIMEOUT_MS);
});

test("without AGENTS the fleet is empty", async (t) => {
  const { AGENTS: _, ...rest } = good;
  const parsed = await parseConfig(rest);
  t.true(parsed.ok && parsed.config.agents.length === 0);
});

const agentAt = (url: string) => JSON.stringify([{ name: "gpu-1", url, keyIds: ["k1"] }]);

test("each wrong variable is named by the hint, which never quotes a value", async (t) => {
  const wrong: readonly (readonly [keyof Env, string | undefined])[] = [
    ["KEY_ID_SECRET", undefined],
    ["KEY_ID_SECRET", "s3cret"],
    ["TENANT_SALT_SECRET", undefined],
    ["TENANT_SALT_SECRET", "s3cret"],
    ["AGENTS", "s3cret"],
    ["AGENTS", '{"s3cret":1}'],
    ["AGENTS", agentAt("s3cret")],
    ["AGENTS", agentAt("ftp://s3cret")],
    ["AGENTS", agentAt("https://user:s3cret@gpu-1.example.com")],
    ["AGENTS", agentAt("https://gpu-1.example.com/?s3cret")],
    ["AGENT_SIGNING_KEYS", undefined],
    ["AGENT_SIGNING_KEYS", "s3cret"],
    ["AGENT_SIGNING_KEYS", '{"k1":"s3cret"}'],
    ["LOST_AFTER_MS", "s3cret"],
    ["UPSTREAM_HEADERS_TIMEOUT_MS", "s3cret"],
    ["UPSTREAM_HEADERS_TIMEOUT_MS", "0"],
    ["UPSTREAM_HEADERS_TIMEOUT_MS", "1000000"],
    ["BREAKER_OPEN_MS", "300001"],
    ["HEARTBEAT_STALE_MS", "0"],
  ];
  for (const [name, value] of wrong) {
    const { [name]: _, ...rest } = good;
    const parsed = await parseConfig(value === undefined ? rest : { ...rest, [name]: value });
    t.false(parsed.ok, `${name}=${value}`);
    if (!parsed.ok) {
      t.true(parsed.hint.includes(name), parsed.hint);
      t.notRegex(parsed.hint, /s3cret/);
    }
  }
});

test("two agents of one name are refused", async (t) => {
  const agent = { name: "gpu-1", url: "https://gpu-1.example.com", keyIds: ["k1"] };
  t.false((await parseConfig({ ...good, AGENTS: JSON.stringify([agent, agent]) })).ok);
});

test("a configuration is parsed once per env object, and a wrong one stays wrong", async (t) => {
  t.is(await loadConfig(good), await loadConfig(good));
  t.not(await loadConfig(good), await loadConfig({ ...good }));
});

/** The hint for this AGENTS, or "ok"; AGENT_SIGNING_KEYS has k1 to k3. */
const hintFor = async (agents: unknown, env: object = {}): Promise<string> => {
  const keys = Object.fromEntries(["k1", "k2", "k3"].map((id) => [id, Buffer.alloc(32, 1).toString("base64url")]));
  const parsed = await parseConfig({
    ...good,
    AGENTS: JSON.stringify(agents),
    AGENT_SIGNING_KEYS: JSON.stringify(keys),
    ...env,
  });
  return parsed.ok ? "ok" : parsed.hint;
};
const agent = { name: "gpu-1", url: "https://gpu-1.example.com", keyIds: ["k1"] };

test("an agent has one or two keys, and shares none with another", async (t) => {
  t.is(
    await hintFor([
      { ...agent, keyIds: ["k1", "k2"] },
      { ...agent, name: "gpu-2", keyIds: ["k3"] },
    ]),
    "ok",
  );
  for (const agents of [
    [{ ...agent, keyIds: [] }],
    [{ ...agent, keyIds: ["k1", "k2", "k3"] }],
    [{ ...agent, keyIds: ["k1", "k1"] }],
    [agent, { ...agent, name: "gpu-2" }],
    [{ ...agent, keyIds: ["k9"] }],
    [{ name: "gpu-1", url: "https://gpu-1.example.com", keyId: "k1" }],
  ]) {
    t.regex(await hintFor(agents), /^AGENT/, JSON.stringify(agents));
  }
});

test("an agent is reached by exactly one of a URL and a binding that the worker has", async (t) => {
  const bound = { name: "gpu-1", binding: "GPU_1", keyIds: ["k1"] };
  t.is(await hintFor([bound], { GPU_1: { fetch: async () => new Response() } }), "ok");
  for (const [agents, env] of [
    [[bound], {}],
    [[bound], { GPU_1: "text" }],
    [[{ ...bound, url: agent.url }], { GPU_1: { fetch: async () => new Response() } }],
    [[{ name: "gpu-1", keyIds: ["k1"] }], {}],
    [[{ ...bound, binding: "not a name" }], {}],
  ] as const) {
    t.regex(await hintFor(agents, env), /^AGENTS/, JSON.stringify(agents));
  }
});

test("weight and static models are bounded, and have their defaults", async (t) => {
  const parsed = await parseConfig(good);
  t.true(parsed.ok);
  if (parsed.ok) t.like(parsed.config.agents[0], { weight: 1, models: undefined, accessHeaders: [] });
  t.is(await hintFor([{ ...agent, weight: 0.5, models: ["atlas"] }]), "ok");
  for (const wrong of [
    { weight: 0 },
    { weight: 1_001 },
    { models: [] },
    { models: [""] },
    { models: ["x".repeat(257)] },
    { port: 1 },
  ]) {
    t.regex(await hintFor([{ ...agent, ...wrong }]), /^AGENTS/, JSON.stringify(wrong));
  }
});

test("an access token belongs to an agent that is there, fits into a header, and is quoted by no hint", async (t) => {
  const tokens = (value: unknown) => hintFor([agent], { AGENT_ACCESS_TOKENS: JSON.stringify(value) });
  t.is(await tokens({ "gpu-1": { clientId: "id", clientSecret: "s3cret" } }), "ok");
  for (const value of [
    { "gpu-2": { clientId: "id", clientSecret: "s3cret" } },
    { "gpu-1": { clientId: "id" } },
    { "gpu-1": { clientId: "id", clientSecret: "s3cret\r\nx-evil: 1" } },
  ]) {
    const hint = await tokens(value);
    t.regex(hint, /^AGENT_ACCESS_TOKENS/);
    t.notRegex(hint, /s3cret/);
  }
});
