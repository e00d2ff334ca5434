/**
 * Whether a request body is plain JSON by its headers. Pure; the body itself is for the agent to judge.
 *
 * Refusing other types keeps a browser's "simple" cross-site form post out; refusing encodings keeps compressed bombs out.
 */

/** True for application/json, with or without parameters, not encoded. */
export const isPlainJson = (headers: Headers): boolean => {
  const type = headers.get("content-type")?.split(";")[0]?.trim().toLowerCase();
  const encoding = headers.get("content-encoding")?.trim().toLowerCase() ?? "identity";
  return type === "application/json" && encoding === "identity";
};
