import test from "ava";
import { authenticate } from "../../gpu-agent/src/auth/authenticate.ts";
import { createLocalKeyCheck } from "../../gpu-agent/src/auth/local-key.ts";
import { createRequestVerifier } from "../../gpu-agent/src/auth/verify-request.ts";
import { signedFields, testKeyId, testLockgate, testNowMs, testSecret, testTarget } from "../helpers/edge-signing.ts";

const key = "local-0123456789";
const local = createLocalKeyCheck(key);
const check = (authorization: string | null, apiKey: string | null = null) => local(authorization, apiKey);
const verifier = () =>
  createRequestVerifier({ keys: new Map([[testKeyId, testSecret]]), now: () => testNowMs, startedAtMs: 0 });

test("the local key passes, its scheme in any case", (t) => {
  for (const scheme of ["Bearer", "bearer", "BEARER"]) t.deepEqual(check(`${scheme} ${key}`), { ok: true });
});

test("no key, an empty one, another scheme, two headers and a wrong key are each refused", (t) => {
  for (const [value, reason] of [
    [null, "missing"],
    ["", "malformed"],
    ["Bearer", "malformed"],
    ["Bearer ", "malformed"],
    [key, "malformed"],
    [`Basic ${key}`, "wrong_scheme"],
    [`Bearer ${key}, Bearer ${key}`, "two_credentials"],
    [`Bearer ${key} x`, "malformed"],
    [`Bearer ${key}x`, "unknown_key"],
    [`Bearer ${"a".repeat(300)}`, "malformed"],
  ] as const) {
    t.deepEqual(check(value), { ok: false, reason }, String(value));
  }
});

test("without a local key configured nothing passes", (t) => {
  const none = createLocalKeyCheck(undefined);
  t.deepEqual(none(`Bearer ${key}`, null), { ok: false, reason: "unknown_key" });
  t.false(none("Bearer ", null).ok);
  t.throws(() => createLocalKeyCheck(""), { instanceOf: RangeError });
});

test("an edge is known by its signature, a person by the local key", async (t) => {
  const edge = await authenticate(verifier(), check, "POST", testTarget, await signedFields("nonce-0000000000-0"));
  t.like(edge, { ok: true, kind: "edge", signingKeyId: testKeyId, lockgate: testLockgate });
  const person = await authenticate(verifier(), check, "POST", testTarget, [["Authorization", `Bearer ${key}`]]);
  t.deepEqual(person, { ok: true, kind: "local" });
});

test("with the local key x-lockgate headers count for nothing", async (t) => {
  const person = await authenticate(verifier(), check, "POST", testTarget, [
    ["authorization", `Bearer ${key}`],
    ["x-lockgate-key-id", "somebody-else"],
  ]);
  t.deepEqual(person, { ok: true, kind: "local" });
});

test("a signature together with a local key, two local keys, and neither are refused", async (t) => {
  const bearer: [string, string] = ["authorization", `Bearer ${key}`];
  const signed = await signedFields("nonce-0000000000-0");
  t.like(await authenticate(verifier(), check, "POST", testTarget, [...signed, bearer]), {
    ok: false,
    reason: "two_credentials",
  });
  t.like(await authenticate(verifier(), check, "POST", testTarget, [bearer, bearer]), {
    ok: false,
    reason: "two_credentials",
  });
  t.like(await authenticate(verifier(), check, "POST", testTarget, []), { ok: false, reason: "missing_signature" });
});
