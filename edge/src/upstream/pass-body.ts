/**
 * Hands an agent's body to the client as the runtime's own stream, and tells how it ended.
 *
 * No byte passes through JavaScript: an IdentityTransformStream is the runtime's own pipe, here only so that its end can be seen.
 */

/** complete: to its last byte. client_gone: nobody reads any more. broken: the agent's side died. */
export type BodyEnd = "complete" | "client_gone" | "broken";

export interface PassedBody {
  /** For the client's response. */
  readonly body: ReadableStream | null;
  /** Settles once nothing flows any more; never rejects. It is to be kept alive beyond the response. */
  readonly ended: Promise<BodyEnd>;
}

/** The length that a response announces, bytes; undefined for one that is sent in chunks. */
export const announcedBytes = (headers: Headers): number | undefined => {
  const length = headers.get("content-length");
  return length !== null && /^\d{1,15}$/.test(length) ? Number(length) : undefined;
};

/** `bytes` is the body's length where it was announced. `clientSignal` is the client's; it must also be the one that the upstream was fetched with. */
export const passBody = (
  upstream: ReadableStream | null,
  bytes: number | undefined,
  clientSignal: AbortSignal,
): PassedBody => {
  if (upstream === null) return { body: null, ended: Promise.resolve("complete") };
  const { readable, writable } = bytes === undefined ? new IdentityTransformStream() : new FixedLengthStream(bytes);
  const ended = upstream.pipeTo(writable, { signal: clientSignal }).then(
    (): BodyEnd => "complete",
    (): BodyEnd => (clientSignal.aborted ? "client_gone" : "broken"),
  );
  return { body: readable, ended };
};
