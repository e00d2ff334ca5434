/**
 * The signing keys as configuration: one JSON object {"<key id>": "<secret, base64url>"}, the same text on both sides.
 *
 * It parses; it neither signs nor keeps a secret anywhere, and its errors never show one.
 */
import * as z from "zod";
import { identifierSchema } from "./identifier.ts";

/** RFC 2104 section 3: a key shorter than the hash weakens the MAC. */
export const MIN_SIGNING_SECRET_BYTES = 32;
const MAX_SIGNING_SECRET_BYTES = 128;
/** Two while one is rotated, for each of the 64 agents that an edge can have. */
export const MAX_SIGNING_KEYS = 128;

/** A key id travels in a quoted string of the signature: a plain alphabet needs no escapes. */
export const signingKeyIdSchema = identifierSchema;

const decodeBase64url = (text: string): Uint8Array<ArrayBuffer> => {
  const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(binary, (character) => character.charCodeAt(0));
};

/** The text of one secret; its output is the raw bytes. The edge's own secrets have the same shape. */
export const rawSecretSchema = z
  .string()
  .regex(/^[A-Za-z0-9_-]+$/, "not base64url")
  .refine((text) => text.length % 4 !== 1, "not base64url")
  .transform(decodeBase64url)
  .refine(
    (bytes) => bytes.length >= MIN_SIGNING_SECRET_BYTES && bytes.length <= MAX_SIGNING_SECRET_BYTES,
    `a secret has ${MIN_SIGNING_SECRET_BYTES} to ${MAX_SIGNING_SECRET_BYTES} bytes`,
  );

/** Schema of the parsed JSON; its output maps key ids to raw secrets. */
export const signingKeysSchema = z
  .record(signingKeyIdSchema, rawSecretSchema)
  .refine((keys) => Object.keys(keys).length <= MAX_SIGNING_KEYS, `at most ${MAX_SIGNING_KEYS} signing keys`)
  .transform((keys): ReadonlyMap<string, Uint8Array<ArrayBuffer>> => new Map(Object.entries(keys)));

/** Key id to raw secret bytes. */
export type SigningKeys = z.output<typeof signingKeysSchema>;

/**
 * Parses the JSON text of the keys.
 * Returns the map, or why not in words that hold no part of the text.
 */
export const parseSigningKeys = (text: string): { ok: true; keys: SigningKeys } | { ok: false; hint: string } => {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return { ok: false, hint: "not JSON" };
  }
  const parsed = signingKeysSchema.safeParse(json);
  if (parsed.success) return { ok: true, keys: parsed.data };
  return { ok: false, hint: parsed.error.issues[0]?.message ?? "not an object of signing keys" };
};
