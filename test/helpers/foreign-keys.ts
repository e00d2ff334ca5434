/** API keys that an edge never gave to anybody: with an id of its own making, or with one that somebody made up. */
import { randomBytes } from "node:crypto";
import { API_KEY_RANDOM_BYTES, mintApiKey } from "../../edge/src/admit/api-key-format.ts";
import { importSecret } from "../../edge/src/admit/secrets.ts";

/** A key with a genuine id and no definition; `keyIdSecret` is the edge's KEY_ID_SECRET. */
export const undefinedKey = async (keyIdSecret: string): Promise<string> => {
  const secret = await importSecret("KEY_ID_SECRET", keyIdSecret);
  if (!secret.ok) throw new Error(secret.hint);
  return (await mintApiKey(secret.key, new Uint8Array(randomBytes(API_KEY_RANDOM_BYTES)))).text;
};

/** A key of the right form with an id that no edge made. */
export const inventedKey = (): string =>
  `lg_${randomBytes(16).toString("hex")}_${randomBytes(32).toString("base64url")}`;

/** `key` with another secret: its id is right. */
export const withOtherSecret = (key: string): string =>
  `${key.slice(0, "lg_".length + 33)}${randomBytes(32).toString("base64url")}`;
