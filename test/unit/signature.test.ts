import { createHmac } from "node:crypto";
import {
  contentDigest,
  encodeNonce,
  importSigningKey,
  lockgateHeaderFields,
  MAX_SIGNING_KEYS,
  MIN_SIGNING_SECRET_BYTES,
  parseLockgateHeaders,
  parseSigningKeys,
  signedComponents,
  signRequest,
} from "@lockgate/shared-types";
import test from "ava";
import fc from "fast-check";
import { createSignature } from "http-message-sig";
import { signingVectors } from "../helpers/edge-signing.ts";
import { pickSeed } from "../helpers/seeded-random.ts";

const bytesOf = (text: string, encoding: BufferEncoding) => Uint8Array.from(Buffer.from(text, encoding));

for (const vector of signingVectors) {
  test(`signing gives the golden bytes: ${vector.name}`, async (t) => {
    const key = await importSigningKey(vector.keyId, bytesOf(vector.secret, "base64url"));
    const { deadlineMs, model, ...lockgate } = vector.lockgate;
    const headers = await signRequest(
      {
        method: vector.method,
        url: vector.url,
        contentDigest: await contentDigest(bytesOf(vector.bodyBase64, "base64")),
        lockgate: {
          ...lockgate,
          ...(deadlineMs === undefined ? {} : { deadlineMs }),
          ...(model === undefined ? {} : { model }),
        },
      },
      key,
      vector.createdS * 1000 + 999,
      vector.nonce,
    );
    t.deepEqual(headers, vector.headers);
  });
}

test("signing gives what the signature library gives, for any request that we may have to sign", async (t) => {
  const seed = pickSeed();
  t.log(`seed ${seed}`);
  const key = await importSigningKey("k1", bytesOf("q".repeat(43), "base64url"));
  const text = fc.string({ unit: fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCharCode(code)) });
  const target = text.map((part) => part.replaceAll("#", ""));
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom("GET", "POST", "HEAD"),
      fc.constantFrom("http://127.0.0.1:1", "https://gpu.example/base", "https://gpu.example"),
      target,
      fc.record({ model: fc.option(text, { nil: undefined }), deadlineMs: fc.option(fc.nat(), { nil: undefined }) }),
      fc.nat(),
      async (method, origin, path, { model, deadlineMs }, createdS) => {
        const lockgate = {
          requestId: "req_1",
          keyId: "demo",
          tenantSalt: "0123456789abcdef",
          ...(model === undefined ? {} : { model }),
          ...(deadlineMs === undefined ? {} : { deadlineMs }),
        };
        const url = `${origin}/${path}`;
        const request = { method, url, contentDigest: "sha-256=:AA==:", lockgate };
        const fields = [["content-digest", request.contentDigest], ...lockgateHeaderFields(lockgate)] as const;
        const expected = await createSignature(
          {
            kind: "request",
            method,
            targetUri: url,
            fields: fields.map(([name = "", value = ""]) => ({ name, value })),
          },
          {
            label: "lockgate",
            components: [...signedComponents, ...lockgateHeaderFields(lockgate).map(([name]) => name)],
            parameters: { created: createdS, expires: createdS + 60, nonce: "n_-1", keyid: "k1", alg: "hmac-sha256" },
            signer: { algorithm: "hmac-sha256", sign: key.sign },
          },
        );
        t.deepEqual((await signRequest(request, key, createdS * 1000, "n_-1")).slice(-2), [
          ["signature-input", expected.signatureInput],
          ["signature", expected.signature],
        ]);
      },
    ),
    { seed, numRuns: 300 },
  );
});

test("text that would say something else in a signature base is not signed", async (t) => {
  const key = await importSigningKey("k1", bytesOf("q".repeat(43), "base64url"));
  const lockgate = { requestId: "req_1", keyId: "demo", tenantSalt: "0123456789abcdef" };
  const request = { method: "GET", url: "http://a/b", contentDigest: "sha-256=:AA==:", lockgate };
  for (const change of [
    { method: 'GET\n"@path": /x' },
    { url: "http://a/b#c" },
    { url: "http://a/b\n" },
    { url: "/b" },
    { contentDigest: "a\r\nb" },
    { lockgate: { ...lockgate, requestId: "é" } },
  ]) {
    await t.throwsAsync(signRequest({ ...request, ...change }, key, 0, "n"), { message: /cannot be signed/ });
  }
  for (const nonce of ['n"', "n\\", "n\n"]) {
    await t.throwsAsync(signRequest(request, key, 0, nonce), { message: /cannot be signed/ });
  }
});

test("the signature library reproduces the hmac-sha256 example of RFC 9421, B.2.5", async (t) => {
  const secret = Buffer.from(
    "uzvJfB4u3N0Jy4T7NZ75MDVcr8zSTInedJtkgcu46YW4XByzNJjxBdtjUkdJPBtbmHhIDi6pcl8jsasjlTMtDQ==",
    "base64",
  );
  const { signature } = await createSignature(
    {
      kind: "request",
      method: "POST",
      targetUri: "https://example.com/foo?param=Value&Pet=dog",
      fields: [
        { name: "date", value: "Tue, 20 Apr 2021 02:07:55 GMT" },
        { name: "content-type", value: "application/json" },
      ],
    },
    {
      label: "sig-b25",
      components: ["date", "@authority", "content-type"],
      parameters: { created: 1618884473, keyid: "test-shared-secret" },
      signer: { algorithm: "hmac-sha256", sign: (data) => createHmac("sha256", secret).update(data).digest() },
    },
  );
  t.is(signature, "sig-b25=:pxcQw6G3AjtMBQjwo8XzkZf/bws5LelbaMk5rGIGtE8=:");
});

test("a nonce is base64url without padding", (t) => {
  t.is(encodeNonce(Uint8Array.from([0xfb, 0xff, 0xfe, 0x00])), "-__-AA");
});

const secretOf = (length: number) => Buffer.alloc(length, 1).toString("base64url");

test("signing keys parse to raw secrets", (t) => {
  const parsed = parseSigningKeys(JSON.stringify({ a: secretOf(32), b: secretOf(33) }));
  t.true(parsed.ok);
  if (parsed.ok)
    t.deepEqual(
      parsed.keys,
      new Map([
        ["a", Uint8Array.from(Buffer.alloc(32, 1))],
        ["b", Uint8Array.from(Buffer.alloc(33, 1))],
      ]),
    );
});

test("signing keys that are short, too many or malformed are refused in words that hold no part of them", (t) => {
  const tooMany = Object.fromEntries(
    Array.from({ length: MAX_SIGNING_KEYS + 1 }, (_, index) => [`k${index}`, secretOf(32)]),
  );
  for (const text of [
    "",
    "s3cret",
    '["s3cret"]',
    JSON.stringify({ k: "s3cret" }),
    JSON.stringify({ k: "s3cret!" }),
    JSON.stringify({ k: secretOf(MIN_SIGNING_SECRET_BYTES - 1) }),
    JSON.stringify({ "s3cret key": secretOf(32) }),
    JSON.stringify(tooMany),
  ]) {
    const parsed = parseSigningKeys(text);
    t.false(parsed.ok, text);
    if (!parsed.ok) t.notRegex(parsed.hint, /s3cret/);
  }
});

const required: [string, string][] = [
  ["X-Lockgate-Request-Id", "req_1"],
  ["x-lockgate-key-id", "demo"],
  ["x-lockgate-tenant-salt", "0123456789abcdef"],
];

test("x-lockgate headers are read in any case, other headers skipped", (t) => {
  t.deepEqual(parseLockgateHeaders([...required, ["accept", "*/*"], ["x-lockgate-deadline", "1800000000000"]]), {
    requestId: "req_1",
    keyId: "demo",
    tenantSalt: "0123456789abcdef",
    deadlineMs: 1_800_000_000_000,
  });
});

test("x-lockgate headers that are missing, malformed, doubled or unknown are refused", (t) => {
  for (const headers of [
    required.slice(1),
    [...required, ["x-lockgate-deadline", "soon"] as [string, string]],
    [...required, ["x-lockgate-deadline", "0"] as [string, string]],
    [...required, ["x-lockgate-key-id", "demo"] as [string, string]],
    [...required, ["x-lockgate-debug", "1"] as [string, string]],
    [...required.slice(0, 2), ["x-lockgate-tenant-salt", "not hex"] as [string, string]],
  ]) {
    t.is(parseLockgateHeaders(headers), undefined);
  }
});

test("a model's name of any text survives its way through a header", (t) => {
  for (const model of ["atlas", "org/name", "a b", "Ünï", "x%20y", "😀", "!*'()", "ü".repeat(256)]) {
    const fields = lockgateHeaderFields({ requestId: "req_1", keyId: "demo", tenantSalt: "0123456789abcdef", model });
    const [, value = ""] = fields.find(([name]) => name === "x-lockgate-model") ?? [];
    t.regex(value, /^[\x21-\x7e]+$/);
    t.is(parseLockgateHeaders(fields)?.model, model);
  }
});

test("a model header in a form that is not the encoder's is refused", (t) => {
  for (const value of ["", "%", "%zz", "a b", "%61", "%c3", "ü", "%ed%a0%80", "x".repeat(257)]) {
    t.is(parseLockgateHeaders([...required, ["x-lockgate-model", value]]), undefined, value);
  }
});
