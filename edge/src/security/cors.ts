/**
 * Which web pages may call the API from a browser (the Fetch standard, "CORS protocol"): those of the origins in CORS_ORIGINS, none by
 * default. Pure.
 *
 * Deliberately absent: a wildcard origin, and `access-control-allow-credentials`, for nothing here goes by cookies; a key is sent by the page
 * itself. The admin API and the agents' endpoints are never opened to pages.
 */
import * as z from "zod";
import { type Parsed, parseJsonVar } from "../config-json.ts";

export const MAX_CORS_ORIGINS = 64;
/** How long a browser need not ask again; the longest that a common one keeps. */
const PREFLIGHT_MAX_AGE_S = 7_200;

/** What a page may read of an answer beside its body. */
const exposedHeaders = [
  "openai-processing-ms",
  "retry-after",
  "retry-after-ms",
  "x-lockgate-agent",
  "x-lockgate-attempts",
  "x-lockgate-replica",
  ...["limit", "remaining", "reset"].flatMap((what) => ["requests", "tokens"].map((of) => `x-ratelimit-${what}-${of}`)),
  "x-request-id",
  "x-should-retry",
].join(", ");

/** As a browser writes it: scheme, host and port, and no more. `null` is none, nor is anything with a `*`, which would match nothing. */
const isOrigin = (text: string): boolean => {
  const url = URL.parse(text);
  return url !== null && /^https?:$/.test(url.protocol) && url.origin === text && !text.includes("*");
};

const originsSchema = z.array(z.string().refine(isOrigin)).max(MAX_CORS_ORIGINS);

/** Parses CORS_ORIGINS, a JSON list; not set means none. */
export const parseCorsOrigins = (text: string | undefined): Parsed<ReadonlySet<string>> => {
  const parsed = parseJsonVar("CORS_ORIGINS", originsSchema, text ?? "[]");
  return parsed.ok ? { ok: true, value: new Set(parsed.value) } : parsed;
};

/** What is asked, as far as it matters here. */
export interface CorsRequest {
  readonly method: string;
  readonly headers: Headers;
}

/** Adds what a browser needs to hear to the headers of the answer. One from another origin hears nothing, and so keeps the answer from its page. */
export const addCorsHeaders = (headers: Headers, request: CorsRequest, origins: ReadonlySet<string>): void => {
  if (origins.size === 0) return;
  // Also on what is said to others: a cache must not give one origin's answer to another.
  headers.append("vary", "origin");
  const origin = request.headers.get("origin");
  if (origin === null || !origins.has(origin)) return;
  headers.set("access-control-allow-origin", origin);
  if (request.method !== "OPTIONS") {
    headers.set("access-control-expose-headers", exposedHeaders);
    return;
  }
  const allowed = headers.get("allow");
  if (allowed === null || !request.headers.has("access-control-request-method")) return;
  headers.set("access-control-allow-methods", allowed);
  // Without credentials * stands for every field but authorization. Client libraries send many; the edge reads a few.
  headers.set("access-control-allow-headers", "authorization, *");
  headers.set("access-control-max-age", String(PREFLIGHT_MAX_AGE_S));
};
