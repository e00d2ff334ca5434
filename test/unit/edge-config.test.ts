import test from "ava";
import { loadConfig, parseConfig, UPSTREAM_HEADERS_TIMEOUT_MS } from "../../edge/src/config.ts";
import type { EnvTexts as Env } from "../../edge/src/env-texts.ts";

const good: Env = {
  AGENTS: '[{"name":"gpu-1","url":"https://gpu-1.example.com/","keyId":"k1"}]',
  AGENT_SIGNING_KEYS: JSON.stringify({ k1: Buffer.alloc(32, 1).toString("base64url") }),
  API_KEY_HASHES: JSON.stringify({ demo: "a".repeat(64) }),
};

test("a good configuration parses, the wait for headers has a default", async (t) => {
  const parsed = await parseConfig(good);
  if (!parsed.ok) return t.fail(parsed.hint);
  t.like(parsed.config.agents[0], { name: "gpu-1", url: "https://gpu-1.example.com" });
  t.is(parsed.config.agents[0]?.signingKey.keyId, "k1");
  t.deepEqual(parsed.config.apiKeyHashes, new Map([["demo", "a".repeat(64)]]));
  t.is(parsed.config.upstreamHeadersTimeoutMs, UPSTREAM_HEADERS_TIMEOUT_MS);
});

test("without AGENTS the fleet is empty", async (t) => {
  const parsed = await parseConfig({ API_KEY_HASHES: "{}" });
  t.true(parsed.ok && parsed.config.agents.length === 0);
});

const agentAt = (url: string) => JSON.stringify([{ name: "gpu-1", url, keyId: "k1" }]);

test("each wrong variable is named by the hint, which never quotes a value", async (t) => {
  const wrong: readonly (readonly [keyof Env, string | undefined])[] = [
    ["API_KEY_HASHES", undefined],
    ["API_KEY_HASHES", "s3cret"],
    ["API_KEY_HASHES", '{"demo":"s3cret"}'],
    ["API_KEY_HASHES", '{"s3cret key":"s3cret"}'],
    ["AGENTS", "s3cret"],
    ["AGENTS", '{"s3cret":1}'],
    ["AGENTS", agentAt("s3cret")],
    ["AGENTS", agentAt("ftp://s3cret")],
    ["AGENTS", agentAt("https://user:s3cret@gpu-1.example.com")],
    ["AGENTS", agentAt("https://gpu-1.example.com/?s3cret")],
    ["AGENT_SIGNING_KEYS", undefined],
    ["AGENT_SIGNING_KEYS", "s3cret"],
    ["AGENT_SIGNING_KEYS", '{"k1":"s3cret"}'],
    ["UPSTREAM_HEADERS_TIMEOUT_MS", "s3cret"],
    ["UPSTREAM_HEADERS_TIMEOUT_MS", "0"],
    ["UPSTREAM_HEADERS_TIMEOUT_MS", "1000000"],
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
  const agent = { name: "gpu-1", url: "https://gpu-1.example.com", keyId: "k1" };
  t.false((await parseConfig({ ...good, AGENTS: JSON.stringify([agent, agent]) })).ok);
});

test("a configuration is parsed once per env object, and a wrong one stays wrong", async (t) => {
  t.is(await loadConfig(good), await loadConfig(good));
  t.not(await loadConfig(good), await loadConfig({ ...good }));
});
