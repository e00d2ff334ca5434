import test from "ava";
import fc from "fast-check";
import { addRateLimits, admit, type GuardBindings, refusalResponse } from "../../edge/src/admit/admit.ts";
import { DEFAULT_MAX_TOKENS, estimateTokens } from "../../edge/src/admit/estimate-tokens.ts";
import type { RequestEnd, TakeVerdict } from "../../edge/src/admit/key-guard-types.ts";
import { MAX_RELEASE_TRIES } from "../../edge/src/admit/lease.ts";
import { formatWait, rateLimitFields } from "../../edge/src/admit/rate-limit-headers.ts";

const rateLimits = {
  requests: { limit: 10, remaining: 3, resetMs: 1500 },
  tokens: { limit: 1000, remaining: 0, resetMs: 360_000 },
};

test("a wait is written as clients know it, rounded up", (t) => {
  for (const [ms, text] of [
    [0, "0ms"],
    [119.2, "120ms"],
    [999, "999ms"],
    [999.5, "1s"],
    [1000, "1s"],
    [1001, "2s"],
    [59_000, "59s"],
    [59_001, "1m0s"],
    [60_100, "1m1s"],
    [360_000, "6m0s"],
  ] as const) {
    t.is(formatWait(ms), text);
  }
});

test("limits are told in six fields, and nothing of a limit that is not there", (t) => {
  t.deepEqual(Object.fromEntries(rateLimitFields(rateLimits)), {
    "x-ratelimit-limit-requests": "10",
    "x-ratelimit-remaining-requests": "3",
    "x-ratelimit-reset-requests": "2s",
    "x-ratelimit-limit-tokens": "1000",
    "x-ratelimit-remaining-tokens": "0",
    "x-ratelimit-reset-tokens": "6m0s",
  });
  t.deepEqual(rateLimitFields({ requests: null, tokens: null }), []);
  const response = new Response(null, { headers: { "x-ratelimit-limit-requests": "99" } });
  t.is(addRateLimits(response, rateLimits).headers.get("x-ratelimit-limit-requests"), "10");
});

test("a refusal by a limit says when to come back, in whole seconds of at least 1 and in ms", (t) => {
  fc.assert(
    fc.property(fc.double({ min: 0, max: 100_000, noNaN: true }), (retryAfterMs) => {
      const { headers, status } = refusalResponse(
        { kind: "refused", code: "rate_limit_exceeded", cause: "concurrency", retryAfterMs, rateLimits },
        "req_1",
      );
      const [seconds, ms] = [Number(headers.get("retry-after")), Number(headers.get("retry-after-ms"))];
      t.is(status, 429);
      t.true(Number.isInteger(seconds) && seconds >= 1 && Number.isInteger(ms));
      t.true(ms >= retryAfterMs && seconds * 1000 >= ms);
      t.is(headers.get("x-should-retry"), null);
      t.is(headers.get("x-ratelimit-remaining-requests"), "3");
    }),
  );
});

test("where no wait helps the client is told not to come back", (t) => {
  for (const [code, cause] of [
    ["insufficient_quota", "monthly_budget"],
    ["rate_limit_exceeded", "tokens_per_minute"],
  ] as const) {
    const { headers, status } = refusalResponse({ kind: "refused", code, cause, rateLimits }, "req_1");
    t.is(status, 429);
    t.is(headers.get("x-should-retry"), "false");
    t.is(headers.get("retry-after"), null);
  }
});

test("refused keys look alike to the last byte, whatever the cause", async (t) => {
  const answers = await Promise.all(
    (["no_such_key", "wrong_secret", "expired", "revoked"] as const).map(async (cause) => {
      const response = refusalResponse({ kind: "refused", code: "invalid_api_key", cause }, "req_1");
      return JSON.stringify([response.status, [...response.headers], await response.text()]);
    }),
  );
  t.is(new Set(answers).size, 1);
});

test("a request is estimated at a token for four bytes and what it may answer", (t) => {
  t.is(estimateTokens(0, 5), 5);
  t.is(estimateTokens(1, 5), 6);
  t.is(estimateTokens(8, undefined), 2 + DEFAULT_MAX_TOKENS);
});

const identity = { kind: "identified", keyId: "k", secretSha256: "s" } as const;
const needs = { scope: "chat", model: "m", estimatedTokens: 7 } as const;
const admitted: TakeVerdict = { kind: "admitted", tenantId: "t", tenantSalt: "00", diagnostics: true, rateLimits };

/** admit() with a guard whose calls go as told. */
const admitWith = async (take: () => Promise<TakeVerdict>, failedReleases = 0) => {
  const waiting: Promise<unknown>[] = [];
  const releases: RequestEnd[] = [];
  let failures = failedReleases;
  const bindings: GuardBindings = {
    KEY_GUARDS: {
      getByName: () => ({
        take,
        renew: () => Promise.reject(new Error("away")),
        release: async (end) => {
          failures -= 1;
          if (failures >= 0) throw new Error("away");
          releases.push(end);
        },
      }),
    },
  };
  const waits = { waitUntil: (work: Promise<unknown>) => void waiting.push(work) };
  const admission = await admit(bindings, waits, identity, needs, { requestId: "req_1", clientRequestId: undefined });
  return { admission, releases, settled: () => Promise.all(waiting) };
};

test("a guard that cannot be asked lets nobody in, and may have taken: what it took is given back", async (t) => {
  const { admission, releases, settled } = await admitWith(() => Promise.reject(new Error("10.0.0.7 is away")));
  if (admission.kind !== "refused") return t.fail();
  t.is(admission.response.status, 503);
  t.truthy(admission.response.headers.get("retry-after"));
  t.notRegex(await admission.response.text(), /10\.0\.0\.7/);
  await settled();
  t.deepEqual(releases, [{ requestId: "req_1", agent: null }]);
});

test("a refused request releases nothing, an admitted one once, and its context is held until then", async (t) => {
  const refused = await admitWith(async () => ({ kind: "refused", code: "permission_denied", cause: "scope" }));
  await refused.settled();
  t.deepEqual(refused.releases, []);

  const { admission, releases, settled } = await admitWith(async () => admitted);
  if (admission.kind !== "admitted") return t.fail();
  t.like(admission, { keyId: "k", tenantSalt: "00", diagnostics: true });
  await admission.lease.renew();
  await admission.lease.ended("gpu-1");
  await admission.lease.ended(null);
  admission.lease.dismiss();
  await settled();
  t.deepEqual(releases, [{ requestId: "req_1", agent: "gpu-1" }]);
});

test("a release that fails is tried again, so often and not for ever", async (t) => {
  for (const [failures, released] of [
    [MAX_RELEASE_TRIES - 1, 1],
    [MAX_RELEASE_TRIES, 0],
  ] as const) {
    const { admission, releases, settled } = await admitWith(async () => admitted, failures);
    if (admission.kind !== "admitted") return t.fail();
    await admission.lease.ended(null);
    await settled();
    t.is(releases.length, released);
  }
});
