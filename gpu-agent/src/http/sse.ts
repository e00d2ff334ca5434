/**
 * The bytes around the events of a stream (WHATWG HTML, server-sent events): what an event looks like, the keep-alive, the headers.
 *
 * LF only, UTF-8 unescaped, and never an `id:` or a `retry:`: with an `id:` a widely used client turns a later comment into a
 * parse error. Deliberately absent: sockets, timers and what the events say (chat-response.ts).
 */

/**
 * A comment, which clients skip. It goes out while nothing else is sent, before the first token too: a proxy gives up on silence, and
 * the edge notices a closed client only when it next writes.
 */
export const KEEP_ALIVE_COMMENT = ": keep-alive\n\n";

/** The keep-alive of a client that asked where it stands: how many turns are ahead of its own. */
export const positionComment = (ahead: number): string => `: keep-alive queue-position=${ahead}\n\n`;

/** Longest silence that the contract allows on a stream, ms. */
export const MAX_SILENCE_MS = 2_000;

/** When to write a keep-alive after the last byte, ms: below the longest silence by what a busy event loop may be late. */
export const KEEP_ALIVE_INTERVAL_MS = 0.75 * MAX_SILENCE_MS;

/** The last event of a turn that finished; never sent after a failure. */
export const DONE_EVENT = "data: [DONE]\n\n";

/** Headers of every event stream. No `content-length` and no compression: both would make someone buffer. */
export const sseHeaders = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-cache, no-transform",
  "x-accel-buffering": "no",
  "content-encoding": "identity",
} as const;

/** One event that carries `json`, which must hold no line break (JSON.stringify writes none). */
export const dataEvent = (json: string): string => `data: ${json}\n\n`;
