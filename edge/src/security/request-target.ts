/**
 * Whether a request says in one way only what it is for. Pure.
 *
 * The runtime joins the Host field and the target into one URL without a look at either. A Host such as `a/healthz?` would move the border
 * between host and path, one such as `a b` makes a URL that no parser takes, and two Host fields arrive as one. RFC 9112 section 3.2
 * wants a 400 for all of these. Nothing is chosen by a host here: it is only judged.
 */

/** Longest path and query, characters: an agent's HTTP server takes heads of 16 KiB, and ours need a few of them. */
export const MAX_TARGET_CHARS = 8_192;

/** malformed: 400. too_long: 413. */
export type TargetFault = "malformed" | "too_long";

const MAX_HOST_CHARS = 261;
/** A name or an IPv4 address, or an IPv6 address in brackets; with a port or without. */
const host = /^(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?$/;

/** The path that a request is routed by; `/`, where nothing is, for a URL that is none. */
export const pathOf = (url: string): string => URL.parse(url)?.pathname ?? "/";

/** What is wrong with a request's URL (`url`, as the runtime has it) or its Host field; undefined if nothing is. */
export const targetFault = (url: string, hostField: string | null): TargetFault | undefined => {
  const parsed = URL.parse(url);
  if (parsed === null || !/^https?:$/.test(parsed.protocol) || `${parsed.username}${parsed.password}` !== "") {
    return "malformed";
  }
  if (hostField !== null && (hostField.length > MAX_HOST_CHARS || !host.test(hostField))) return "malformed";
  return parsed.pathname.length + parsed.search.length > MAX_TARGET_CHARS ? "too_long" : undefined;
};
