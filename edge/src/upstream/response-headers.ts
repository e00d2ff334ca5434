/**
 * Which of an agent's response headers a client sees. Pure.
 *
 * An allow-list: an agent sits in somebody's network, and a new header of its server must not leak what that looks like. Copied
 * field by field into a Headers object, since a plain object would merge and corrupt values.
 */

const passedNames: ReadonlySet<string> = new Set([
  "allow",
  "cache-control",
  "content-type",
  "openai-processing-ms",
  "retry-after",
  "retry-after-ms",
  "x-accel-buffering",
  "x-should-retry",
]);
const passedPrefix = "x-ratelimit-";

/** The client's headers for an agent's response. */
export const clientHeaders = (upstream: Headers, requestId: string): Headers => {
  const headers = new Headers();
  for (const [name, value] of upstream) {
    if (passedNames.has(name) || name.startsWith(passedPrefix)) headers.append(name, value);
  }
  headers.set("x-request-id", requestId);
  // Compression would hold events back until a block is full.
  if (headers.get("content-type")?.startsWith("text/event-stream")) headers.set("content-encoding", "identity");
  return headers;
};
