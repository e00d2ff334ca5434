import { on as eventsOf, once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import test, { type ExecutionContext } from "ava";
import { ClientStream } from "../../gpu-agent/src/http/client-stream.ts";
import { ClientGone } from "../../gpu-agent/src/turn/run-turn.ts";

interface Exchange {
  readonly stream: ClientStream;
  readonly response: ServerResponse;
  readonly client: Socket;
  /** Everything that the client received until the connection ended. */
  readonly received: Promise<string>;
}

const KEEP_ALIVE = ": keep-alive\n\n";
/** Longer than any test: what happens within a test happens for another reason. */
const LONG_MS = 600_000;
const MORE_THAN_SOCKETS_HOLD = "x".repeat(32 * 1024 * 1024);

/** One request from a bare socket, answered by a stream with these limits. A paused client reads nothing until it is resumed. */
const exchange = async (
  t: ExecutionContext,
  limits: { readonly keepAliveMs?: number; readonly writeStallMs?: number; readonly paused?: boolean },
): Promise<Exchange> => {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const client = connect((server.address() as AddressInfo).port, "127.0.0.1");
  t.teardown(() => {
    client.destroy();
    server.closeAllConnections();
    server.close();
  });
  client.on("error", () => {}); // a reset is told by the close
  let text = "";
  if (!limits.paused) client.setEncoding("latin1").on("data", (chunk) => (text += chunk));
  const received = once(client, "close").then(() => text);
  client.write("GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
  const [, response] = (await once(server, "request")) as [unknown, ServerResponse];
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.flushHeaders();
  const stream = new ClientStream({
    response,
    keepAlive: () => KEEP_ALIVE,
    keepAliveMs: limits.keepAliveMs ?? LONG_MS,
    writeStallMs: limits.writeStallMs ?? LONG_MS,
  });
  t.teardown(() => stream.close());
  return { stream, response, client, received };
};

/** The chunks of a chunked body, and whether its last one came. */
const chunksOf = (received: string): { chunks: string[]; ended: boolean } => {
  let rest = received.slice(received.indexOf("\r\n\r\n") + 4);
  const chunks: string[] = [];
  while (rest !== "") {
    const lineEnd = rest.indexOf("\r\n");
    const length = Number.parseInt(rest.slice(0, lineEnd), 16);
    if (length === 0) return { chunks, ended: true };
    chunks.push(rest.slice(lineEnd + 2, lineEnd + 2 + length));
    rest = rest.slice(lineEnd + 2 + length + 2);
  }
  return { chunks, ended: false };
};

/** Fills the socket of a client that does not read; returns the promise for room. */
const fill = (stream: ClientStream): Promise<void> => {
  stream.text(MORE_THAN_SOCKETS_HOLD);
  const room = stream.flush();
  if (room === undefined) throw new Error("the socket took everything");
  return room;
};

test("text is sent at flush, in order, and once", async (t) => {
  const { stream, received } = await exchange(t, {});
  t.is(stream.flush(), undefined);
  stream.text("one ");
  stream.text("two");
  t.is(stream.flush(), undefined);
  t.is(stream.flush(), undefined);
  stream.text("three");
  t.is(stream.flush(), undefined);
  stream.end();
  const { chunks, ended } = chunksOf(await received);
  t.is(chunks.join(""), "one twothree");
  t.true(ended);
});

test("end sends what is still queued", async (t) => {
  const { stream, received } = await exchange(t, {});
  stream.text("last");
  stream.end();
  t.deepEqual(chunksOf(await received), { chunks: ["last"], ended: true });
});

test("a reset is no end: the client sees a truncated body", async (t) => {
  const { stream, received } = await exchange(t, {});
  stream.text("one");
  t.is(stream.flush(), undefined);
  stream.text("never sent");
  stream.reset();
  const { chunks, ended } = chunksOf(await received);
  t.false(ended);
  t.false(chunks.join("").includes("never"));
});

test("a quiet stream speaks up by itself", async (t) => {
  const { stream, client, received } = await exchange(t, { keepAliveMs: 20 });
  let seen = "";
  for await (const [chunk] of eventsOf(client, "data")) {
    seen += chunk;
    if (seen.split(KEEP_ALIVE).length > 3) break;
  }
  stream.end();
  const { chunks, ended } = chunksOf(await received);
  t.true(ended && chunks.length >= 3 && chunks.every((chunk) => chunk === KEEP_ALIVE));
});

test("a client that is full is waited for, and there is room when it reads", async (t) => {
  const { stream, client } = await exchange(t, { paused: true });
  const room = fill(stream);
  let bytes = 0;
  client.on("data", (chunk) => {
    bytes += chunk.length;
  });
  await room;
  stream.text("more");
  stream.end();
  await once(client, "end");
  t.true(bytes > MORE_THAN_SOCKETS_HOLD.length + "more".length);
});

test("a client that takes nothing for the write-stall limit is gone and cut off", async (t) => {
  const { stream, response } = await exchange(t, { paused: true, writeStallMs: 30 });
  const error = await t.throwsAsync(fill(stream), { instanceOf: ClientGone });
  t.regex(error.message, /30 ms/);
  t.true(response.destroyed);
});

test("a client that goes away in the middle of a write is gone at once, not at the limit", async (t) => {
  const { stream, client } = await exchange(t, { paused: true });
  const room = fill(stream);
  for await (const [chunk] of eventsOf(client, "data")) if (String(chunk).endsWith("xxx")) break;
  client.destroy();
  await t.throwsAsync(room, { instanceOf: ClientGone, message: /went away/ });
});

test("a flush to a client that went away before is refused as gone", async (t) => {
  const { stream, response, client } = await exchange(t, {});
  const closed = once(response, "close");
  client.resetAndDestroy();
  await closed;
  stream.text("one");
  await t.throwsAsync(stream.flush() ?? Promise.resolve(), { instanceOf: ClientGone });
  t.is(stream.flush(), undefined);
});

test("an end that a client does not take is cut off at the write-stall limit", async (t) => {
  const { stream, response } = await exchange(t, { paused: true, writeStallMs: 30 });
  const closed = once(response, "close");
  stream.text(MORE_THAN_SOCKETS_HOLD);
  stream.end();
  await closed;
  t.true(response.destroyed);
  t.false(response.writableFinished);
});
