import test from "ava";
import { estimateTokens, MAX_ESTIMATED_TOKENS } from "../../edge/src/admit/estimate-tokens.ts";
import { addAnswerHeaders } from "../../edge/src/security/answer-headers.ts";
import { addCorsHeaders, MAX_CORS_ORIGINS, parseCorsOrigins } from "../../edge/src/security/cors.ts";
import { MAX_TARGET_CHARS, pathOf, targetFault } from "../../edge/src/security/request-target.ts";
import { judgeAnswer } from "../../edge/src/upstream/judge-status.ts";

test("a host is a name or an address with or without a port, and nothing else", (t) => {
  for (const host of ["a", "edge.example.com", "10.0.0.1:8787", "[::1]", "[2001:db8::1]:443", "a_b-c.example", null]) {
    t.is(targetFault("http://a/v1/models", host), undefined, String(host));
  }
  for (const host of [
    "",
    "a b",
    "a,b",
    "a, b",
    "a/b",
    "a?",
    "a#",
    "u@a",
    "[",
    "[a]x",
    "a:",
    "a:123456",
    "a\\b",
    "%41",
    "ä",
  ]) {
    t.is(targetFault("http://a/v1/models", host), "malformed", host);
  }
  t.is(targetFault("http://a/v1/models", "a".repeat(261)), undefined);
  t.is(targetFault("http://a/v1/models", "a".repeat(262)), "malformed");
});

test("a URL that is none, of another protocol or with a name in it is malformed, and routed nowhere", (t) => {
  for (const url of ["", "http://a b/v1/models", "http://[/v1/models", "ftp://a/v1/models", "http://u:p@a/v1/models"]) {
    t.is(targetFault(url, "a"), "malformed", url);
  }
  t.is(pathOf("http://a b/v1/models"), "/");
  t.is(pathOf("http://a/v1/%2e%2e/healthz?x"), "/healthz");
});

test("a path and query at the bound pass, one character more is too long", (t) => {
  const atBound = `http://a/?${"q".repeat(MAX_TARGET_CHARS - 2)}`;
  t.is(targetFault(atBound, "a"), undefined);
  t.is(targetFault(`${atBound}q`, "a"), "too_long");
});

test("nobody keeps an error, and nothing else unless its maker said so", (t) => {
  for (const [status, before, after] of [
    [200, undefined, "no-store"],
    [200, "no-cache, no-transform", "no-cache, no-transform"],
    [404, "public, max-age=60", "no-store"],
    [503, undefined, "no-store"],
  ] as const) {
    const headers = new Headers(before === undefined ? {} : { "cache-control": before });
    addAnswerHeaders(headers, status, false);
    t.is(headers.get("cache-control"), after);
    t.is(headers.get("x-content-type-options"), "nosniff");
  }
});

test("HTTPS is made binding over HTTPS only, for this host alone", (t) => {
  const headers = new Headers();
  addAnswerHeaders(headers, 200, false);
  t.false(headers.has("strict-transport-security"));
  addAnswerHeaders(headers, 200, true);
  t.is(headers.get("strict-transport-security"), "max-age=31536000");
});

test("origins are a list of exact ones; a wildcard, null and anything with a path are none", (t) => {
  t.deepEqual(parseCorsOrigins(undefined), { ok: true, value: new Set() });
  t.deepEqual(parseCorsOrigins('["https://a.example","http://localhost:5173"]'), {
    ok: true,
    value: new Set(["https://a.example", "http://localhost:5173"]),
  });
  const many = (count: number) => JSON.stringify(Array.from({ length: count }, (_, at) => `https://a${at}.example`));
  t.true(parseCorsOrigins(many(MAX_CORS_ORIGINS)).ok);
  for (const text of [
    "https://a.example",
    '"https://a.example"',
    '["*"]',
    '["null"]',
    '["https://*.example"]',
    '["https://a.example/"]',
    '["https://a.example:443"]',
    '["https://A.example"]',
    '["https://u@a.example"]',
    '["ftp://a.example"]',
    '["s3cret"]',
    many(MAX_CORS_ORIGINS + 1),
  ]) {
    const parsed = parseCorsOrigins(text);
    t.false(parsed.ok, text);
    if (!parsed.ok) t.regex(parsed.hint, /^CORS_ORIGINS (?!.*(s3cret|example))/);
  }
});

test("without origins no header is added, not even vary", (t) => {
  const headers = new Headers();
  addCorsHeaders(headers, { method: "GET", headers: new Headers({ origin: "https://a.example" }) }, new Set());
  t.deepEqual([...headers], []);
});

test("what is not of an agent's status and type is somebody else's answer", (t) => {
  for (const [status, type, verdict] of [
    [200, "application/json", "answer"],
    [200, "application/json; charset=utf-8", "answer"],
    [200, "text/event-stream; charset=utf-8", "answer"],
    [200, "text/html", "misled"],
    [200, "application/jsonx", "misled"],
    [200, null, "misled"],
    [429, "text/html", "misled"],
    [503, "text/html", "misled"],
    [401, null, "unknown_key"],
    [502, "text/html", "not_reached"],
    [201, "application/json", "misled"],
    [204, "application/json", "misled"],
    [418, "application/json", "misled"],
    [431, null, "misled"],
    [599, "application/json", "misled"],
    [600, "application/json", "misled"],
    [999, "application/json", "misled"],
  ] as const) {
    t.is(judgeAnswer(status, type), verdict, `${status} ${type}`);
  }
});

test("whatever a client asks for, its estimate is a number that can be added up, and beyond every limit", (t) => {
  t.is(estimateTokens(4 * 1024 * 1024, Number.MAX_SAFE_INTEGER), MAX_ESTIMATED_TOKENS);
  t.true(MAX_ESTIMATED_TOKENS > 1_000_000_000_000);
  t.true(Number.isSafeInteger(MAX_ESTIMATED_TOKENS * 8_000));
});
