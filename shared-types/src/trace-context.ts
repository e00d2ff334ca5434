/**
 * W3C Trace Context (Recommendation of 23 November 2021, sections 3.2 and 3.3): what a caller says about the trace that its request
 * belongs to. Pure parsers. A header that is not exactly as the standard has it counts as absent, for it goes into logs and onwards.
 *
 * Deliberately absent: making traces. A request that comes without one is known by its request id.
 */

/** The headers' names on the wire. */
export const traceHeaderNames = { traceparent: "traceparent", tracestate: "tracestate" } as const;

/** A caller's place in its trace; all in lower-case hex. */
export interface TraceParent {
  /** 16 bytes. */
  readonly traceId: string;
  /** 8 bytes: the span of the caller. */
  readonly parentId: string;
  /** 1 byte; bit 0 says that the caller records. */
  readonly flags: string;
}

/** A version to come may add fields behind ours; nobody needs more room than this. */
const MAX_TRACEPARENT_CHARS = 128;
const form = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const allZero = /^0+$/;

/** Parses `traceparent`; undefined for one that is absent, sent twice (then joined by a comma) or malformed. */
export const parseTraceparent = (header: string | null | undefined): TraceParent | undefined => {
  if (header === null || header === undefined || header.length > MAX_TRACEPARENT_CHARS) return undefined;
  const [, version, traceId = "", parentId = "", flags = "", more] = form.exec(header) ?? [];
  if (version === undefined || version === "ff" || allZero.test(traceId) || allZero.test(parentId)) return undefined;
  // Version 00 ends here; later ones may go on after another hyphen (3.2.4).
  if (more !== undefined && (version === "00" || !/^[\x21-\x7e]*$/.test(more))) return undefined;
  return { traceId, parentId, flags };
};

/** What has to be passed on at least (3.3.1.5); we pass on no more. */
export const MAX_TRACESTATE_CHARS = 512;
const MAX_TRACESTATE_MEMBERS = 32;
const key = /^(?:[a-z][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13})$/;
const value = /^[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$/;

const isMember = (member: string): boolean => {
  const cut = member.indexOf("=");
  return cut > 0 && key.test(member.slice(0, cut)) && value.test(member.slice(cut + 1));
};

/**
 * `tracestate` as it may be passed on: the whole list, or as many of its first members as fit. Undefined for one that is absent, empty
 * or malformed; it means nothing without a valid `traceparent`.
 */
export const passableTracestate = (header: string | null | undefined): string | undefined => {
  const members = (header ?? "").split(",").flatMap((member) => {
    const trimmed = member.replaceAll(/^[\t ]+|[\t ]+$/g, "");
    return trimmed === "" ? [] : [trimmed];
  });
  if (members.length === 0 || members.length > MAX_TRACESTATE_MEMBERS || !members.every(isMember)) return undefined;
  let passed = "";
  for (const member of members) {
    const longer = passed === "" ? member : `${passed},${member}`;
    if (longer.length > MAX_TRACESTATE_CHARS) break;
    passed = longer;
  }
  return passed === "" ? undefined : passed;
};
