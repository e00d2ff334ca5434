import { MAX_BODY_BYTES } from "@lockgate/shared-types";
import test from "ava";
import { discardBody, MAX_DISCARDED_BYTES, readBody } from "../../edge/src/upstream/read-body.ts";

const CHUNK_BYTES = 1024 * 1024;

/** A POST whose body is `chunks` chunks of a MiB, then `end`; counts what was pulled. */
const upload = (chunks: number, end: "close" | "error" | "hang", headers: Record<string, string> = {}) => {
  const pulled = { chunks: 0 };
  const body = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        if (pulled.chunks < chunks) {
          pulled.chunks += 1;
          controller.enqueue(new Uint8Array(CHUNK_BYTES));
          return;
        }
        if (end === "close") controller.close();
        if (end === "error") controller.error(new Error("connection lost"));
        return end === "hang" ? new Promise(() => undefined) : undefined;
      },
    },
    { highWaterMark: 0 },
  );
  return { pulled, request: new Request("http://edge/", { method: "POST", body, headers, duplex: "half" }) };
};

test("a body at the limit is read whole", async (t) => {
  const result = await readBody(upload(MAX_BODY_BYTES / CHUNK_BYTES, "close").request);
  t.is(result.kind === "read" ? result.bytes.length : -1, MAX_BODY_BYTES);
});

test("a body that comes byte by byte is kept in one buffer, never more than twice its size", async (t) => {
  const bytes = Uint8Array.from({ length: 5_000 }, (_, at) => at % 251);
  const body = ReadableStream.from([...bytes].map((byte) => Uint8Array.of(byte)));
  const request = new Request("http://edge/", { method: "POST", body, duplex: "half" });
  const result = await readBody(request);
  if (result.kind !== "read") return t.fail(result.kind);
  t.deepEqual(result.bytes, bytes);
  t.true(result.bytes.buffer.byteLength <= 2 * bytes.length, String(result.bytes.buffer.byteLength));
});

test("a request without a body has an empty one", async (t) => {
  t.deepEqual(await readBody(new Request("http://edge/", { method: "POST" })), {
    kind: "read",
    bytes: new Uint8Array(0),
  });
});

test("an announced length over the limit is refused before anything is read", async (t) => {
  const { request, pulled } = upload(1, "close", { "content-length": String(MAX_BODY_BYTES + 1) });
  t.deepEqual(await readBody(request), { kind: "too_large" });
  t.is(pulled.chunks, 0);
});

test("a body that turns out too large is dropped to its end, or up to the bound of what is dropped", async (t) => {
  const short = upload(MAX_BODY_BYTES / CHUNK_BYTES + 1, "close");
  t.deepEqual(await readBody(short.request), { kind: "too_large" });
  const endless = upload(Number.POSITIVE_INFINITY, "close");
  t.deepEqual(await readBody(endless.request), { kind: "too_large" });
  t.is(endless.pulled.chunks, MAX_DISCARDED_BYTES / CHUNK_BYTES + 1);
});

test("a body that stops coming is given up in time, one that breaks off at once", async (t) => {
  t.deepEqual(await readBody(upload(1, "hang").request, 20), { kind: "timed_out" });
  t.deepEqual(await readBody(upload(1, "error").request), { kind: "client_gone" });
});

test("the error of a body that breaks off does not know who waits for it", async (t) => {
  const errors: Error[] = [];
  const fail = () => {
    const error = new Error("connection lost");
    errors.push(error);
    throw error;
  };
  // As the runtime does it: the error is made where the waiting code would go on.
  const reader = { read: () => Promise.resolve().then(fail), cancel: async () => undefined };
  const request = { headers: new Headers(), body: { getReader: () => reader } } as unknown as Request;
  t.deepEqual(await readBody(request), { kind: "client_gone" });
  t.is(errors.length, 1);
  t.regex(errors[0]?.stack ?? "", /fail/);
  t.notRegex(errors[0]?.stack ?? "", /\basync\b/);
});

test("discarding reads an unread body, up to its bound, and leaves a read one alone", async (t) => {
  const unread = upload(3, "close");
  await discardBody(unread.request);
  t.is(unread.pulled.chunks, 3);
  const endless = upload(Number.POSITIVE_INFINITY, "close");
  await discardBody(endless.request);
  t.is(endless.pulled.chunks, MAX_DISCARDED_BYTES / CHUNK_BYTES + 1);
  const read = upload(1, "close");
  await readBody(read.request);
  await t.notThrowsAsync(discardBody(read.request));
});
