/**
 * The x-lockgate-* headers: what the edge tells an agent about a request, under its signature.
 *
 * Pure names, schema and conversions. It deliberately knows nothing about signing (signature.ts) and does no I/O.
 */
import * as z from "zod";
import { identifierSchema } from "./identifier.ts";
import { isModelName } from "./model-name.ts";

/** Every header with this prefix belongs to the edge: a client's own are stripped, and an agent takes none that is not signed. */
export const lockgateHeaderPrefix = "x-lockgate-";

/** The names on the wire, lower case. */
export const lockgateHeaderNames = {
  requestId: "x-lockgate-request-id",
  keyId: "x-lockgate-key-id",
  tenantSalt: "x-lockgate-tenant-salt",
  deadlineMs: "x-lockgate-deadline",
  model: "x-lockgate-model",
} as const;

/** In an agent's answer: the number of the replica that has the turn, where it is known when headers go out. */
export const REPLICA_HEADER = "x-lockgate-replica";

/** Those that every request carries: a deadline only the one whose client named one, a model only the one that has a turn. */
export const requiredLockgateHeaders: readonly string[] = [
  lockgateHeaderNames.requestId,
  lockgateHeaderNames.keyId,
  lockgateHeaderNames.tenantSalt,
];

/** A model's name may be any text, and a header field not: it goes percent-encoded (RFC 3986, 2.1), which has one form for each text. */
const modelNameSchema = z.string().refine(isModelName, "no name of a model");

export const lockgateHeadersSchema = z.strictObject({
  /** The edge's own id of the request. */
  requestId: z.string().regex(/^[A-Za-z0-9_-]{1,64}$/),
  /** The API key's id (never the key), for usage records. */
  keyId: identifierSchema,
  /** Hex: requests of different tenants share no prefix-cache entry. */
  tenantSalt: z.string().regex(/^[0-9a-f]{16,64}$/),
  /** Unix time in ms after which nobody waits for the answer. */
  deadlineMs: z.number().int().positive().optional(),
  /** The model that is to be dispatched: the one that the key was checked for. */
  model: modelNameSchema.optional(),
});

/** The values, parsed. */
export type LockgateHeaders = Readonly<z.infer<typeof lockgateHeadersSchema>>;

/** True for a header name of the edge's own, in any case. */
export const isLockgateHeader = (name: string): boolean => name.toLowerCase().startsWith(lockgateHeaderPrefix);

/** The values as header fields, in the order in which they are signed. */
export const lockgateHeaderFields = (values: LockgateHeaders): [name: string, value: string][] => {
  const fields: [string, string][] = [
    [lockgateHeaderNames.requestId, values.requestId],
    [lockgateHeaderNames.keyId, values.keyId],
    [lockgateHeaderNames.tenantSalt, values.tenantSalt],
  ];
  if (values.deadlineMs !== undefined) fields.push([lockgateHeaderNames.deadlineMs, String(values.deadlineMs)]);
  if (values.model !== undefined) fields.push([lockgateHeaderNames.model, encodeURIComponent(values.model)]);
  return fields;
};

/** The text that was encoded; undefined for what the encoder does not write. */
const decodeModel = (encoded: string): string | undefined => {
  try {
    const model = decodeURIComponent(encoded);
    return encodeURIComponent(model) === encoded ? model : undefined;
  } catch {
    return undefined;
  }
};

/**
 * Reads the values back from header fields; other fields are skipped.
 * Returns undefined if one is missing, malformed, sent twice or unknown.
 */
export const parseLockgateHeaders = (fields: Iterable<readonly [string, string]>): LockgateHeaders | undefined => {
  const byName = new Map<string, string>();
  for (const [name, value] of fields) {
    if (!isLockgateHeader(name)) continue;
    if (byName.has(name.toLowerCase())) return undefined;
    byName.set(name.toLowerCase(), value.trim());
  }
  const known = Object.entries(lockgateHeaderNames);
  if (byName.size > known.filter(([, name]) => byName.has(name)).length) return undefined;
  const deadline = byName.get(lockgateHeaderNames.deadlineMs);
  const model = byName.get(lockgateHeaderNames.model);
  const parsed = lockgateHeadersSchema.safeParse({
    requestId: byName.get(lockgateHeaderNames.requestId),
    keyId: byName.get(lockgateHeaderNames.keyId),
    tenantSalt: byName.get(lockgateHeaderNames.tenantSalt),
    ...(deadline === undefined ? {} : { deadlineMs: /^\d{1,15}$/.test(deadline) ? Number(deadline) : Number.NaN }),
    ...(model === undefined ? {} : { model: decodeModel(model) ?? "" }),
  });
  return parsed.success ? parsed.data : undefined;
};
