import { createHash, createHmac } from "node:crypto";
import test from "ava";
import fc from "fast-check";
import {
  API_KEY_RANDOM_BYTES,
  API_KEY_SECRET_BYTES,
  isGenuineKeyId,
  mintApiKey,
  mintSecret,
  parseApiKey,
} from "../../edge/src/admit/api-key-format.ts";
import { equalInConstantTime, type MacKey } from "../../edge/src/admit/digest.ts";
import { identify } from "../../edge/src/admit/identify.ts";
import { importSecret } from "../../edge/src/admit/secrets.ts";

const secretText = Buffer.alloc(32, 7).toString("base64url");
const keyOf = async (text: string): Promise<MacKey> => {
  const secret = await importSecret("KEY_ID_SECRET", text);
  if (!secret.ok) throw new Error(secret.hint);
  return secret.key;
};
const macKey = await keyOf(secretText);
const random = (fill = 1) => new Uint8Array(API_KEY_RANDOM_BYTES).fill(fill);
const minted = await mintApiKey(macKey, random());

test("a key is its random id, the MAC of that, and a secret; only its digest is to be stored", (t) => {
  const begin = "01".repeat(8);
  const mac = createHmac("sha256", Buffer.alloc(32, 7)).update(`api key id ${begin}`).digest("hex").slice(0, 16);
  t.is(minted.keyId, `${begin}${mac}`);
  t.is(minted.text, `lg_${minted.keyId}_${Buffer.alloc(32, 1).toString("base64url")}`);
  t.is(minted.sha256, createHash("sha256").update(minted.text).digest("hex"));
});

test("a minted key is read back, and so is a new secret of the same id", async (t) => {
  t.deepEqual(await parseApiKey(macKey, minted.text), { ok: true, keyId: minted.keyId, sha256: minted.sha256 });
  const renewed = await mintSecret(minted.keyId, new Uint8Array(API_KEY_SECRET_BYTES).fill(9));
  t.is(renewed.keyId, minted.keyId);
  t.not(renewed.sha256, minted.sha256);
  t.like(await parseApiKey(macKey, renewed.text), { ok: true, keyId: minted.keyId, sha256: renewed.sha256 });
});

test("random bytes of another number are refused", async (t) => {
  await t.throwsAsync(mintApiKey(macKey, new Uint8Array(8)));
  await t.throwsAsync(mintSecret(minted.keyId, random()));
});

test("an id whose MAC was not made here is invented, whichever character differs", async (t) => {
  for (let at = 0; at < minted.keyId.length; at += 1) {
    const other = minted.keyId[at] === "a" ? "b" : "a";
    const keyId = `${minted.keyId.slice(0, at)}${other}${minted.keyId.slice(at + 1)}`;
    t.false(await isGenuineKeyId(macKey, keyId));
    t.deepEqual(await parseApiKey(macKey, minted.text.replace(minted.keyId, keyId)), {
      ok: false,
      fault: "invented_id",
    });
  }
  t.true(await isGenuineKeyId(macKey, minted.keyId));
  t.false(await isGenuineKeyId(await keyOf(Buffer.alloc(32, 8).toString("base64url")), minted.keyId));
});

test("anything else is no key, and nothing throws", async (t) => {
  for (const text of ["", "lg_", minted.keyId, minted.text.slice(0, -1), `${minted.text}A`, ` ${minted.text}`]) {
    t.deepEqual(await parseApiKey(macKey, text), { ok: false, fault: "not_a_key" }, text);
  }
  t.deepEqual(await parseApiKey(macKey, minted.text.toUpperCase()), { ok: false, fault: "not_a_key" });
  await fc.assert(
    fc.asyncProperty(fc.string({ unit: "binary", maxLength: 120 }), async (text) => {
      const parsed = await parseApiKey(macKey, text);
      return !parsed.ok && !(await isGenuineKeyId(macKey, text));
    }),
  );
});

test("digests are equal only where every character is", (t) => {
  t.true(equalInConstantTime("abc", "abc"));
  for (const other of ["abd", "bbc", "ab", "abcd", ""]) t.false(equalInConstantTime("abc", other), other);
});

test("a secret of the edge has 32 to 128 bytes in base64url, and a wrong one is told without showing it", async (t) => {
  for (const bytes of [32, 128]) t.true((await importSecret("X", Buffer.alloc(bytes).toString("base64url"))).ok);
  for (const text of [undefined, "", "s3cret", "s3cret!", Buffer.alloc(31).toString("base64url")]) {
    const result = await importSecret("KEY_ID_SECRET", text);
    t.false(result.ok);
    if (!result.ok) {
      t.regex(result.hint, /^KEY_ID_SECRET/);
      t.notRegex(result.hint, /s3cret/);
    }
  }
});

test("field report 32: no key, an empty one, another scheme, two keys: nobody is identified", async (t) => {
  const { text } = minted;
  for (const [headers, cause] of [
    [{}, "missing"],
    [{ authorization: "" }, "malformed"],
    [{ authorization: "Bearer" }, "malformed"],
    [{ authorization: `Basic ${text}` }, "wrong_scheme"],
    [{ authorization: text }, "malformed"],
    [{ authorization: `Bearer ${text}, Bearer ${text}` }, "two_credentials"],
    [{ authorization: `Bearer ${text}`, "x-api-key": "other" }, "two_credentials"],
    [{ "x-api-key": "" }, "malformed"],
    [{ authorization: "Bearer other" }, "not_a_key"],
  ] as const) {
    const expected = { kind: "refused", code: "invalid_api_key", cause } as const;
    t.deepEqual(await identify(macKey, new Headers(headers)), expected, JSON.stringify(Object.keys(headers)));
  }
  t.deepEqual(await identify(macKey, new Headers({ "x-api-key": text })), {
    kind: "identified",
    keyId: minted.keyId,
    secretSha256: minted.sha256,
  });
});
