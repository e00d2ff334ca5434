import {
  CLOCK_SKEW_S,
  contentDigest,
  createHeadJudge,
  createNonceSet,
  importSigningKey,
  NONCE_RETENTION_MS,
  parseSigningKeys,
  SIGNATURE_LIFETIME_S,
} from "@lockgate/shared-types";
import test from "ava";
import { createRequestVerifier } from "../../gpu-agent/src/auth/verify-request.ts";
import {
  signedFields,
  signingVectors,
  testBody,
  testKeyId,
  testLockgate,
  testNowMs,
  testSecret,
  testTarget,
} from "../helpers/edge-signing.ts";

type Fields = [string, string][];

const nonce = (index = 0) => `nonce-0000000000-${index}`;
const otherSecret = Uint8Array.from({ length: 32 }, () => 9);

const verifierAt = (nowMs: number, options: { startedAtMs?: number; capacity?: number } = {}) =>
  createRequestVerifier({
    keys: new Map([[testKeyId, testSecret]]),
    now: () => nowMs,
    startedAtMs: options.startedAtMs ?? 0,
    nonces: createNonceSet(NONCE_RETENTION_MS, options.capacity),
  });

const without = (fields: Fields, name: string): Fields => fields.filter(([field]) => field !== name);
const replaced = (fields: Fields, name: string, value: string): Fields =>
  fields.map(([field, old]) => [field, field === name ? value : old]);

/** What the verifier says to a good request that `change` has touched; testTarget and POST unless told otherwise. */
const reasonFor = async (change: (fields: Fields) => Fields, method = "POST", target = testTarget): Promise<string> => {
  const verdict = await verifierAt(testNowMs).verifyHead(method, target, change(await signedFields(nonce())));
  return verdict.ok ? "ok" : verdict.reason;
};

for (const vector of signingVectors) {
  test(`the golden vector verifies: ${vector.name}`, async (t) => {
    const keys = parseSigningKeys(JSON.stringify({ [vector.keyId]: vector.secret }));
    if (!keys.ok) return t.fail(keys.hint);
    const verifier = createRequestVerifier({ keys: keys.keys, now: () => vector.createdS * 1000, startedAtMs: 0 });
    const head = await verifier.verifyHead(vector.method, vector.url, vector.headers);
    if (!head.ok) return t.fail(head.detail);
    t.is(head.keyId, vector.keyId);
    t.deepEqual(head.lockgate, vector.lockgate as typeof head.lockgate);
    t.true(verifier.verifyBody(head.contentDigest, Buffer.from(vector.bodyBase64, "base64")));
  });
}

for (const vector of signingVectors) {
  test(`the golden vector verifies with the edge's own MAC too: ${vector.name}`, async (t) => {
    const secret = Uint8Array.from(Buffer.from(vector.secret, "base64url"));
    const { verify } = await importSigningKey(vector.keyId, secret);
    const judge = createHeadJudge(new Map([[vector.keyId, verify]]));
    const head = await judge(vector.method, vector.url, vector.headers, vector.createdS * 1000);
    t.like(head, {
      ok: true,
      keyId: vector.keyId,
      nonce: `${vector.keyId} ${vector.nonce}`,
      createdS: vector.createdS,
    });
    if (head.ok) t.deepEqual(head.lockgate, vector.lockgate as typeof head.lockgate);
    const body = Uint8Array.from(Buffer.from(vector.bodyBase64, "base64"));
    t.true(head.ok && head.contentDigest === (await contentDigest(body)));
    const forged = vector.headers.map(([name, value]) => [name, value.replace("=:", "=:AAAA")] as [string, string]);
    t.like(await judge(vector.method, vector.url, forged, vector.createdS * 1000), { ok: false });
  });
}

test("a good request passes, whatever host it came through, and tells who signed what", async (t) => {
  const verifier = verifierAt(testNowMs);
  const head = await verifier.verifyHead("POST", testTarget, await signedFields(nonce()));
  if (!head.ok) return t.fail(head.detail);
  t.is(head.keyId, testKeyId);
  t.deepEqual(head.lockgate, testLockgate);
  t.true(verifier.verifyBody(head.contentDigest, testBody));
});

test("an altered body does not match the signed digest", async (t) => {
  const verifier = verifierAt(testNowMs);
  const head = await verifier.verifyHead("POST", testTarget, await signedFields(nonce()));
  if (!head.ok) return t.fail(head.detail);
  t.false(verifier.verifyBody(head.contentDigest, Buffer.concat([testBody, Buffer.from(" ")])));
  t.false(verifier.verifyBody(head.contentDigest, new Uint8Array(0)));
});

test("an altered method, path or query is refused", async (t) => {
  t.is(await reasonFor((fields) => fields), "ok");
  t.is(await reasonFor((fields) => fields, "GET"), "bad_mac");
  t.is(await reasonFor((fields) => fields, "POST", "/v1/other?a=1"), "bad_mac");
  t.is(await reasonFor((fields) => fields, "POST", "/v1/chat/completions?a=2"), "bad_mac");
  t.is(await reasonFor((fields) => fields, "POST", "/v1/chat/completions"), "bad_mac");
});

test("an altered digest or x-lockgate header is refused", async (t) => {
  t.is(await reasonFor((fields) => replaced(fields, "content-digest", `sha-256=:${"A".repeat(43)}=:`)), "bad_mac");
  t.is(await reasonFor((fields) => replaced(fields, "x-lockgate-key-id", "other")), "bad_mac");
});

test("an x-lockgate header that is not signed is refused, known or not", async (t) => {
  t.is(await reasonFor((fields) => [...fields, ["x-lockgate-deadline", "1900000000000"]]), "policy");
  t.is(await reasonFor((fields) => [...fields, ["X-Lockgate-Debug", "1"]]), "policy");
});

test("a second line of a signed header is refused", async (t) => {
  t.is(await reasonFor((fields) => [...fields, ["x-lockgate-key-id", "other"]]), "bad_mac");
});

test("a request without signature, or with half of one, is refused", async (t) => {
  t.is(await reasonFor(() => []), "missing_signature");
  t.is(await reasonFor((fields) => without(fields, "signature")), "missing_signature");
  t.is(await reasonFor((fields) => without(fields, "signature-input")), "missing_signature");
  t.is(await reasonFor((fields) => without(fields, "content-digest")), "missing_signature");
  t.is(await reasonFor((fields) => without(fields, "x-lockgate-tenant-salt")), "missing_signature");
});

test("a signature that covers less, or says another algorithm, is refused", async (t) => {
  const edited = (from: string, to: string) => (fields: Fields) =>
    fields.map(([name, value]): [string, string] => [
      name,
      name === "signature-input" ? value.replace(from, to) : value,
    ]);
  t.is(await reasonFor(edited(' "content-digest"', "")), "policy");
  t.is(await reasonFor(edited(' "x-lockgate-key-id"', "")), "policy");
  t.is(await reasonFor(edited(';alg="hmac-sha256"', "")), "policy");
  t.is(
    await reasonFor(edited(/nonce="[^"]*";/.exec((await signedFields(nonce())).toString())?.[0] ?? "", "")),
    "policy",
  );
  t.is(await reasonFor(edited("hmac-sha256", "ed25519")), "policy");
  t.is(await reasonFor(edited("lockgate=", "other=")), "malformed");
  t.is(await reasonFor(edited("(", "((")), "malformed");
});

test("a key that the agent does not have is refused", async (t) => {
  const fields = await signedFields(nonce(), testNowMs, "k2");
  const verdict = await verifierAt(testNowMs).verifyHead("POST", testTarget, fields);
  t.like(verdict, { ok: false, reason: "unknown_key" });
});

test("the right key id with another secret is refused", async (t) => {
  const fields = await signedFields(nonce(), testNowMs, testKeyId, otherSecret);
  const verdict = await verifierAt(testNowMs).verifyHead("POST", testTarget, fields);
  t.like(verdict, { ok: false, reason: "bad_mac" });
});

test("two keys are active at once", async (t) => {
  const verifier = createRequestVerifier({
    keys: new Map([
      ["old", testSecret],
      ["new", otherSecret],
    ]),
    now: () => testNowMs,
    startedAtMs: 0,
  });
  for (const [keyId, secret] of [
    ["old", testSecret],
    ["new", otherSecret],
  ] as const) {
    const head = await verifier.verifyHead("POST", testTarget, await signedFields(nonce(), testNowMs, keyId, secret));
    t.like(head, { ok: true, keyId });
  }
});

test("the clocks may differ by the skew and not by more, either way", async (t) => {
  const skewMs = CLOCK_SKEW_S * 1000;
  for (const [offsetMs, ok] of [
    [-skewMs, true],
    [skewMs, true],
    [-skewMs - 1000, false],
    [skewMs + 1000, false],
  ] as const) {
    const verdict = await verifierAt(testNowMs).verifyHead(
      "POST",
      testTarget,
      await signedFields(nonce(), testNowMs + offsetMs),
    );
    t.is(verdict.ok, ok, String(offsetMs));
    if (!verdict.ok) t.is(verdict.reason, "policy");
  }
  t.true(SIGNATURE_LIFETIME_S <= CLOCK_SKEW_S, "else a signature outlives the window that nonces are kept for");
});

test("a signature from before the agent's start is refused, one of the same second is not", async (t) => {
  const started = (startedAtMs: number) => verifierAt(testNowMs, { startedAtMs });
  const fields = await signedFields(nonce(), testNowMs);
  t.like(await started(testNowMs + 1000).verifyHead("POST", testTarget, fields), { ok: false, reason: "before_start" });
  t.like(await started(testNowMs + 999).verifyHead("POST", testTarget, fields), { ok: true });
});

test("a second use of a nonce is refused, also when both arrive at once", async (t) => {
  const verifier = verifierAt(testNowMs);
  const fields = await signedFields(nonce());
  const verdicts = await Promise.all([
    verifier.verifyHead("POST", testTarget, fields),
    verifier.verifyHead("POST", testTarget, fields),
  ]);
  t.is(verdicts.filter((verdict) => verdict.ok).length, 1);
  t.like(await verifier.verifyHead("POST", testTarget, fields), { ok: false, reason: "replayed" });
});

test("a forged request does not use up the nonce of a good one", async (t) => {
  const verifier = verifierAt(testNowMs);
  const fields = await signedFields(nonce());
  t.false((await verifier.verifyHead("GET", testTarget, fields)).ok);
  t.true((await verifier.verifyHead("POST", testTarget, fields)).ok);
});

test("a nonce that is too short is refused", async (t) => {
  const verdict = await verifierAt(testNowMs).verifyHead("POST", testTarget, await signedFields("short"));
  t.like(verdict, { ok: false, reason: "bad_nonce" });
});

test("a full nonce set refuses, and takes again once the old ones have expired", async (t) => {
  let nowMs = testNowMs;
  const nonces = createNonceSet(NONCE_RETENTION_MS, 2);
  const verifier = createRequestVerifier({
    keys: new Map([[testKeyId, testSecret]]),
    now: () => nowMs,
    startedAtMs: 0,
    nonces,
  });
  const send = async (index: number) =>
    verifier.verifyHead("POST", testTarget, await signedFields(nonce(index), nowMs));
  t.true((await send(1)).ok);
  t.true((await send(2)).ok);
  t.like(await send(3), { ok: false, reason: "nonces_full" });
  nowMs += NONCE_RETENTION_MS;
  t.true((await send(3)).ok);
  t.is(nonces.size, 1);
});

test("a nonce is remembered for as long as its signature could be sent again", async (t) => {
  let nowMs = testNowMs;
  const verifier = createRequestVerifier({
    keys: new Map([[testKeyId, testSecret]]),
    now: () => nowMs,
    startedAtMs: 0,
  });
  // Signed by the fastest clock that is accepted: it stays acceptable the longest.
  const fields = await signedFields(nonce(), testNowMs + CLOCK_SKEW_S * 1000);
  t.true((await verifier.verifyHead("POST", testTarget, fields)).ok);
  nowMs = testNowMs + NONCE_RETENTION_MS - 1;
  t.like(await verifier.verifyHead("POST", testTarget, fields), { ok: false, reason: "replayed" });
  nowMs = testNowMs + NONCE_RETENTION_MS + 1000;
  t.like(await verifier.verifyHead("POST", testTarget, fields), { ok: false, reason: "policy" });
});
