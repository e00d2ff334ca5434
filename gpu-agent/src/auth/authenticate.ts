/**
 * Who sent this request: an edge (signature) or a person inside the network (local key). Exactly one of the two must be shown.
 *
 * A caller with the local key speaks for itself alone: its x-lockgate-* headers are ignored, since nothing vouches for them.
 */
import type { CredentialFault, HeaderFields, LockgateHeaders, RefusalReason } from "@lockgate/shared-types";
import type { LocalKeyCheck } from "./local-key.ts";
import type { RequestVerifier } from "./verify-request.ts";

export type Caller =
  | {
      readonly ok: true;
      readonly kind: "edge";
      readonly signingKeyId: string;
      readonly contentDigest: string;
      readonly lockgate: LockgateHeaders;
    }
  | { readonly ok: true; readonly kind: "local" }
  | { readonly ok: false; readonly reason: RefusalReason | CredentialFault; readonly detail: string };

/** Judges a request before its body is read; an edge's body must then pass verifyBody. */
export const authenticate = async (
  verifier: RequestVerifier,
  checkLocalKey: LocalKeyCheck,
  method: string,
  url: string,
  headers: HeaderFields,
): Promise<Caller> => {
  const fields = [...headers];
  const valuesOf = (name: string): string[] =>
    fields.filter(([field]) => field.toLowerCase() === name).map(([, value]) => value);
  const fieldOf = (name: string): string | null => valuesOf(name).join(", ") || null;
  const [authorization, apiKey] = [fieldOf("authorization"), fieldOf("x-api-key")];
  const isSigned = valuesOf("signature").length > 0 || valuesOf("signature-input").length > 0;
  if (valuesOf("authorization").length > 0 || apiKey !== null) {
    if (isSigned) return { ok: false, reason: "two_credentials", detail: "a signature and a local key" };
    const verdict = checkLocalKey(authorization, apiKey);
    return verdict.ok ? { ok: true, kind: "local" } : { ok: false, reason: verdict.reason, detail: "local key" };
  }
  const head = await verifier.verifyHead(method, url, fields);
  if (!head.ok) return head;
  return {
    ok: true,
    kind: "edge",
    signingKeyId: head.keyId,
    contentDigest: head.contentDigest,
    lockgate: head.lockgate,
  };
};
