/**
 * The text of a file of signing keys, and what creating and rotating make of it. Pure: the new key is passed in, nothing is read or written.
 *
 * The file is what shared-types parses, one JSON object of key id to secret; the order carries one more thing: the first key is the
 * active one, which whoever signs should use. No message holds a part of a secret.
 */
import { parseSigningKeys } from "@lockgate/shared-types";

/** The active key and its predecessor: signatures by the old one are good until its successor has spread to both sides. */
export const KEPT_KEYS = 2;

export interface NewKey {
  readonly id: string;
  /** base64url. */
  readonly secret: string;
}

const textOf = (entries: ReadonlyArray<readonly [id: string, secret: string]>): string =>
  `${JSON.stringify(Object.fromEntries(entries), null, 2)}\n`;

export const createdKeyFile = ({ id, secret }: NewKey): string => textOf([[id, secret]]);

/** Ids of a file's keys, the active one first; or why the text is no file of keys. */
export const keyIdsOf = (
  text: string,
): { readonly ok: true; readonly ids: readonly string[] } | { readonly ok: false; readonly hint: string } => {
  const parsed = parseSigningKeys(text);
  return parsed.ok ? { ok: true, ids: [...parsed.keys.keys()] } : parsed;
};

export type RotatedKeyFile =
  | { readonly ok: true; readonly text: string; readonly kept: readonly string[]; readonly dropped: readonly string[] }
  | { readonly ok: false; readonly hint: string };

/** The file with the new key as its active one. The key that was active is kept, older ones are dropped. */
export const rotatedKeyFile = (text: string, { id, secret }: NewKey): RotatedKeyFile => {
  const parsed = parseSigningKeys(text);
  if (!parsed.ok) return parsed;
  const before = [...parsed.keys].map(([oldId, bytes]) => [oldId, Buffer.from(bytes).toString("base64url")] as const);
  const kept = before.slice(0, KEPT_KEYS - 1);
  const keptIds = kept.map(([keptId]) => keptId);
  return {
    ok: true,
    text: textOf([[id, secret], ...kept]),
    kept: keptIds,
    dropped: before.map(([oldId]) => oldId).filter((oldId) => !keptIds.includes(oldId)),
  };
};
