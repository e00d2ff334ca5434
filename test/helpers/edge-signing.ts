/**
 * Signed requests for tests of the verifier: the golden vectors, and a signer with a fixed key and clock.
 */
import { readFileSync } from "node:fs";
import { contentDigest, importSigningKey, type LockgateHeaders, signRequest } from "@lockgate/shared-types";
import { z } from "zod";

const vectorsSchema = z.object({
  vectors: z.array(
    z.object({
      name: z.string(),
      keyId: z.string(),
      secret: z.string(),
      method: z.string(),
      url: z.string(),
      bodyBase64: z.string(),
      lockgate: z.object({
        requestId: z.string(),
        keyId: z.string(),
        tenantSalt: z.string(),
        deadlineMs: z.number().optional(),
        model: z.string().optional(),
      }),
      createdS: z.number(),
      nonce: z.string(),
      headers: z.array(z.tuple([z.string(), z.string()])),
    }),
  ),
});

/** test/fixtures/signing-vectors.json, which both sides read. */
export const signingVectors = vectorsSchema.parse(
  JSON.parse(readFileSync(new URL("../fixtures/signing-vectors.json", import.meta.url), "utf8")),
).vectors;

export const testSecret = Uint8Array.from({ length: 32 }, (_, index) => index);
export const testKeyId = "k1";
/** The clock of these tests, unix ms. */
export const testNowMs = 1_800_000_000_000;
export const testBody = Uint8Array.from(Buffer.from('{"model":"m"}'));
export const testTarget = "/v1/chat/completions?a=1";
export const testLockgate: LockgateHeaders = {
  requestId: "req_1",
  keyId: "demo",
  tenantSalt: "0123456789abcdef",
};

/** The header fields of a good POST to testTarget, signed at `nowMs`. */
export const signedFields = async (
  nonce: string,
  nowMs: number = testNowMs,
  keyId: string = testKeyId,
  secret: Uint8Array<ArrayBuffer> = testSecret,
): Promise<[string, string][]> =>
  signRequest(
    {
      method: "POST",
      url: `https://agent.example${testTarget}`,
      contentDigest: await contentDigest(testBody),
      lockgate: testLockgate,
    },
    await importSigningKey(keyId, secret),
    nowMs,
    nonce,
  );
