/**
 * The edge's own secrets (KEY_ID_SECRET, TENANT_SALT_SECRET), parsed and made ready for use. Its errors never show one.
 */
import { rawSecretSchema } from "@lockgate/shared-types";
import type { MacKey } from "./digest.ts";

export type SecretResult = { readonly ok: true; readonly key: MacKey } | { readonly ok: false; readonly hint: string };

/** Imports a secret for HMAC-SHA-256; `name` is the variable's, for the hint. */
export const importSecret = async (name: string, text: string | undefined): Promise<SecretResult> => {
  if (text === undefined) return { ok: false, hint: `${name} is not set` };
  const parsed = rawSecretSchema.safeParse(text);
  if (!parsed.success) return { ok: false, hint: `${name}: ${parsed.error.issues[0]?.message ?? "not a secret"}` };
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  return { ok: true, key: await crypto.subtle.importKey("raw", parsed.data, algorithm, false, ["sign"]) };
};
