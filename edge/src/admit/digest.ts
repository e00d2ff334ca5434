/**
 * The digests that admission works with, and how bytes are written as text. Pure.
 *
 * SHA-256 alone is enough for what is stored of a key: a key is long and random, so nobody gains from a slow hash but an attacker who
 * wants the edge busy.
 */

const encoder = new TextEncoder();

const hexOfByte = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

/** Bytes as lower-case hex. */
export const toHex = (bytes: Uint8Array): string => {
  let hex = "";
  for (const byte of bytes) hex += hexOfByte[byte];
  return hex;
};

/** Bytes as base64url without padding (RFC 4648 section 5). */
export const toBase64url = (bytes: Uint8Array): string =>
  btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "");

/** SHA-256 of a text, lower-case hex. */
export const sha256Hex = async (text: string): Promise<string> =>
  toHex(new Uint8Array(await crypto.subtle.digest("SHA-256", encoder.encode(text))));

/** A secret made ready for HMAC-SHA-256; the platforms' type definitions know it under different names. */
export type MacKey = Awaited<ReturnType<typeof crypto.subtle.importKey>>;

/** HMAC-SHA-256 of a text, lower-case hex. */
export const hmacHex = async (key: MacKey, text: string): Promise<string> =>
  toHex(new Uint8Array(await crypto.subtle.sign("HMAC", key, encoder.encode(text))));

/** Compares two digests without stopping at the first difference: the time tells nothing about how close a guess came. */
export const equalInConstantTime = (left: string, right: string): boolean => {
  let difference = left.length ^ right.length;
  for (let index = 0; index < left.length; index += 1) difference |= left.charCodeAt(index) ^ right.charCodeAt(index);
  return difference === 0;
};
