/**
 * The text of an API key: `lg_<id>_<secret>`. Pure: randomness is passed in.
 *
 * The id ends with a MAC of its beginning, so that an invented id is refused before any object is named after it: an object that is
 * asked once exists for ever. The MAC says nothing about whether the key is good; its guard does.
 */
import { equalInConstantTime, hmacHex, type MacKey, sha256Hex, toBase64url, toHex } from "./digest.ts";

const ID_RANDOM_BYTES = 8;
/** 64 bits of the MAC: a guesser needs some 10^19 requests for one object. */
const ID_MAC_HEX_CHARS = 16;
const SECRET_BYTES = 32;
/** Keeps this use of the secret apart from any other. */
const MAC_LABEL = "api key id ";

/** Random bytes that a new key takes; a new secret for an old id takes API_KEY_SECRET_BYTES. */
export const API_KEY_RANDOM_BYTES = ID_RANDOM_BYTES + SECRET_BYTES;
export const API_KEY_SECRET_BYTES = SECRET_BYTES;

const pattern = /^lg_([0-9a-f]{32})_[A-Za-z0-9_-]{43}$/;
const idPattern = /^[0-9a-f]{32}$/;

export interface MintedKey {
  /** Names the key in logs, records and headers. */
  readonly keyId: string;
  /** The whole key: shown once, stored nowhere. */
  readonly text: string;
  /** SHA-256 of the text, lower-case hex: what is stored. */
  readonly sha256: string;
}

const macOf = async (macKey: MacKey, random: string): Promise<string> =>
  (await hmacHex(macKey, `${MAC_LABEL}${random}`)).slice(0, ID_MAC_HEX_CHARS);

/** Makes a new secret for a key that exists; `random` has API_KEY_SECRET_BYTES. */
export const mintSecret = async (keyId: string, random: Uint8Array<ArrayBuffer>): Promise<MintedKey> => {
  if (random.length !== SECRET_BYTES) throw new Error(`a secret takes ${SECRET_BYTES} random bytes`);
  const text = `lg_${keyId}_${toBase64url(random)}`;
  return { keyId, text, sha256: await sha256Hex(text) };
};

/** Makes a new key; `random` has API_KEY_RANDOM_BYTES, `macKey` is that of KEY_ID_SECRET. */
export const mintApiKey = async (macKey: MacKey, random: Uint8Array<ArrayBuffer>): Promise<MintedKey> => {
  if (random.length !== API_KEY_RANDOM_BYTES) throw new Error(`a key takes ${API_KEY_RANDOM_BYTES} random bytes`);
  const begin = toHex(random.subarray(0, ID_RANDOM_BYTES));
  return mintSecret(`${begin}${await macOf(macKey, begin)}`, random.slice(ID_RANDOM_BYTES));
};

/** Whether an id was made with this secret: only then may an object be named after it. */
export const isGenuineKeyId = async (macKey: MacKey, keyId: string): Promise<boolean> => {
  if (!idPattern.test(keyId)) return false;
  const begin = keyId.slice(0, -ID_MAC_HEX_CHARS);
  return equalInConstantTime(await macOf(macKey, begin), keyId.slice(-ID_MAC_HEX_CHARS));
};

export type ParsedApiKey =
  | { readonly ok: true; readonly keyId: string; readonly sha256: string }
  | { readonly ok: false; readonly fault: "not_a_key" | "invented_id" };

/** Reads a key that a client sent: its id, once that is known to be ours, and the digest that its guard compares. */
export const parseApiKey = async (macKey: MacKey, text: string): Promise<ParsedApiKey> => {
  const keyId = pattern.exec(text)?.[1];
  if (keyId === undefined) return { ok: false, fault: "not_a_key" };
  if (!(await isGenuineKeyId(macKey, keyId))) return { ok: false, fault: "invented_id" };
  return { ok: true, keyId, sha256: await sha256Hex(text) };
};
