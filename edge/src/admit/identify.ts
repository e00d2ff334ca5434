/**
 * Who a request says it is, as far as that can be told without asking anybody: a key whose id is ours. Its secret is not yet checked.
 *
 * It comes before the body is read and before any object is named: a stranger gets no further than this.
 */
import { type CredentialFault, readApiKey } from "@lockgate/shared-types";
import { parseApiKey } from "./api-key-format.ts";
import type { MacKey } from "./digest.ts";

export type Identity =
  | { readonly kind: "identified"; readonly keyId: string; readonly secretSha256: string }
  | {
      readonly kind: "refused";
      readonly code: "invalid_api_key";
      /** For the log alone. */
      readonly cause: CredentialFault | "not_a_key" | "invented_id";
    };

const refused = (cause: Extract<Identity, { kind: "refused" }>["cause"]): Identity => ({
  kind: "refused",
  code: "invalid_api_key",
  cause,
});

/** Reads the one key of a request; `macKey` is that of KEY_ID_SECRET. */
export const identify = async (macKey: MacKey, headers: Headers): Promise<Identity> => {
  const credential = readApiKey(headers.get("authorization"), headers.get("x-api-key"));
  if (!credential.ok) return refused(credential.fault);
  const parsed = await parseApiKey(macKey, credential.secret);
  if (!parsed.ok) return refused(parsed.fault);
  return { kind: "identified", keyId: parsed.keyId, secretSha256: parsed.sha256 };
};
