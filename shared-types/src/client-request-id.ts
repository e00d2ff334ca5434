/** What of a client's own x-request-id goes into a log. Pure. It names nothing else: the internal id is always the server's own. */

const MAX_CLIENT_ID_CHARS = 64;

/** The header made safe for a log line; undefined if there is none. */
export const clientRequestId = (header: string | null | undefined): string | undefined =>
  header?.slice(0, MAX_CLIENT_ID_CHARS).replaceAll(/[^\x21-\x7e]/g, "?");
