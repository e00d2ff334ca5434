import test from "ava";
import { checkKey } from "../../edge/src/admit/check-key.ts";
import { isSameDefinition } from "../../edge/src/admit/same-definition.ts";
import { keyDefinition, nowMs, secretSha256, takeRequest } from "../helpers/key-guard.ts";

const otherSha256 = "b".repeat(64);

test("a key with the right secret, scope and model passes", (t) => {
  t.is(checkKey(keyDefinition(), takeRequest(), nowMs), undefined);
  t.is(checkKey(keyDefinition({ models: ["m"] }), takeRequest({ model: "m" }), nowMs), undefined);
  t.is(checkKey(keyDefinition({ models: ["m"] }), takeRequest({ model: null }), nowMs), undefined);
});

test("field report 14: expiry is exact to the millisecond, of the key and of a secret", (t) => {
  for (const at of [
    (expiresAtMs: number) => keyDefinition({ expiresAtMs }),
    (expiresAtMs: number) => keyDefinition({ secrets: [{ sha256: secretSha256, expiresAtMs }] }),
  ]) {
    t.is(checkKey(at(nowMs + 1), takeRequest(), nowMs), undefined);
    t.like(checkKey(at(nowMs), takeRequest(), nowMs), { code: "invalid_api_key", cause: "expired" });
    t.like(checkKey(at(nowMs - 1), takeRequest(), nowMs), { code: "invalid_api_key", cause: "expired" });
  }
});

test("while a secret is rotated both are good, each to its own end", (t) => {
  const key = keyDefinition({
    secrets: [
      { sha256: otherSha256, expiresAtMs: null },
      { sha256: secretSha256, expiresAtMs: nowMs + 10 },
    ],
  });
  t.is(checkKey(key, takeRequest(), nowMs), undefined);
  t.like(checkKey(key, takeRequest(), nowMs + 10), { cause: "expired" });
  t.is(checkKey(key, takeRequest({ secretSha256: otherSha256 }), nowMs + 10), undefined);
});

test("a revoked key is refused whatever the time of its revocation says", (t) => {
  for (const revokedAtMs of [0, nowMs, nowMs + 60_000]) {
    t.like(checkKey(keyDefinition({ revokedAtMs }), takeRequest(), nowMs), { cause: "revoked" });
  }
});

test("who lacks the secret learns nothing else; then revoked, expired, scope and model are told in this order", (t) => {
  const definition = {
    revokedAtMs: nowMs as number | null,
    expiresAtMs: nowMs as number | null,
    scopes: ["models"] as const,
    models: ["m"],
  };
  const cause = (changed: Partial<typeof definition>, request = takeRequest({ model: "other" })) => {
    const refusal = checkKey(keyDefinition({ ...definition, ...changed }), request, nowMs);
    return [refusal?.code, refusal?.cause];
  };
  t.deepEqual(cause({}, takeRequest({ secretSha256: otherSha256 })), ["invalid_api_key", "wrong_secret"]);
  t.deepEqual(cause({}), ["invalid_api_key", "revoked"]);
  t.deepEqual(cause({ revokedAtMs: null }), ["invalid_api_key", "expired"]);
  t.deepEqual(cause({ revokedAtMs: null, expiresAtMs: null }), ["permission_denied", "scope"]);
  t.deepEqual(
    checkKey(keyDefinition({ models: ["m"] }), takeRequest({ model: "other" }), nowMs)?.code,
    "model_not_found",
  );
});

test("definitions are the same when they say the same, in whatever order", (t) => {
  const key = keyDefinition({ models: ["a", "b"] });
  const { limits, keyId, tenantId, ...rest } = key;
  const { tokensPerMonth, concurrency, ...others } = limits;
  const turned = { ...rest, limits: { tokensPerMonth, concurrency, ...others }, tenantId, keyId };
  t.true(isSameDefinition(key, turned));
  t.true(isSameDefinition(null, null));
  t.false(isSameDefinition(key, null));
  for (const changed of [
    { tenantId: "other" },
    { secrets: [] },
    { scopes: [] },
    { models: ["a"] },
    { models: null },
    { expiresAtMs: 1 },
    { revokedAtMs: 1 },
    { limits: { ...limits, concurrency: 1 } },
  ]) {
    t.false(isSameDefinition(key, { ...key, ...changed }), JSON.stringify(changed));
  }
});
