/**
 * An Admit over a fixed list of key hashes (the API_KEY_HASHES secret). No limits, no expiry, no revocation.
 *
 * Only SHA-256 digests are kept: keys are long and random, so a fast hash is enough. Every entry is compared in full, so the
 * time tells nothing about which came close.
 */
import { readApiKey } from "@lockgate/shared-types";
import type { Admit } from "./admit.ts";

/** Half a SHA-256: enough that no two tenants share a partition. */
const TENANT_SALT_HEX_CHARS = 32;

const sha256Hex = async (text: string): Promise<string> => {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
};

/** Compares two hex digests without stopping at the first difference. */
const equalInConstantTime = (left: string, right: string): boolean => {
  let difference = left.length ^ right.length;
  for (let index = 0; index < left.length; index += 1) difference |= left.charCodeAt(index) ^ right.charCodeAt(index);
  return difference === 0;
};

/** Makes the check; `hashes` maps key ids to SHA-256 digests in lower-case hex. */
export const admitByKeyHashes =
  (hashes: ReadonlyMap<string, string>): Admit =>
  async (headers) => {
    const credential = readApiKey(headers.get("authorization"), headers.get("x-api-key"));
    if (!credential.ok) return { kind: "refused", code: "invalid_api_key", cause: credential.fault };
    const given = await sha256Hex(credential.secret);
    let keyId: string | undefined;
    for (const [id, expected] of hashes) if (equalInConstantTime(given, expected)) keyId = id;
    if (keyId === undefined) return { kind: "refused", code: "invalid_api_key", cause: "unknown_key" };
    const tenantSalt = (await sha256Hex(`tenant-salt ${keyId}`)).slice(0, TENANT_SALT_HEX_CHARS);
    return { kind: "admitted", keyId, tenantSalt };
  };
