import { randomBytes } from "node:crypto";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import test from "ava";
import fc from "fast-check";
import { onlyAgent, startEdgeUnderTest } from "../helpers/edge-worker.ts";
import { exchange, open, readBytes } from "../helpers/edge-worker-client.ts";
import { keepAliveComment, type Script } from "../helpers/scripted-agent.ts";

const edge = await startEdgeUnderTest();
const agent = onlyAgent(edge);
test.after.always(() => edge.stop());

const eventStream = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-cache, no-transform",
  "x-accel-buffering": "no",
};

const sendChunks =
  (chunks: readonly Uint8Array[]): Script =>
  async (reply) => {
    reply.head(200, eventStream);
    for (const chunk of chunks) await reply.write(chunk);
    reply.end();
  };

/** `bytes` cut before each of the given offsets. */
const cutAt = (bytes: Buffer, offsets: readonly number[]): Buffer[] => {
  const edges = [0, ...[...new Set(offsets)].sort((a, b) => a - b), bytes.length];
  return edges
    .slice(1)
    .map((end, index) => bytes.subarray(edges[index], end))
    .filter((chunk) => chunk.length > 0);
};

const stream = Buffer.from(
  [
    `data: {"delta":"Zürich 東京 🦜"}\n\n`,
    keepAliveComment,
    "event: ping\r\ndata: crlf\r\n\r\n",
    "unknown: field\nid-less: yes\ndata: two\ndata: lines\n\n",
    ":\n\n",
    "data: [DONE]\n\n",
  ].join(""),
);

const eachByte = (bytes: Buffer): Buffer[] => cutAt(bytes, [...bytes.keys()]);

const cases: readonly (readonly [title: string, chunks: readonly Buffer[]])[] = [
  ["a stream in one-byte chunks", eachByte(stream)],
  ["a cut inside a UTF-8 sequence", cutAt(stream, [stream.indexOf("ü") + 1, stream.indexOf("🦜") + 2])],
  ["a cut inside the blank line", cutAt(stream, [stream.indexOf("\n\n") + 1])],
  ["a cut inside CRLF", cutAt(stream, [stream.indexOf("\r\n") + 1])],
  ["a stream in one chunk", [stream]],
  ["a last event without its newline", [stream, Buffer.from("data: open end")]],
  ["bytes that are no UTF-8, and NUL", [Buffer.from([0xff, 0xfe, 0x00, 0xc3, 0x0d, 0x0a, 0x80])]],
  ["an empty stream", []],
];

for (const [title, chunks] of cases) {
  test.serial(`${title} arrives byte for byte, with a clean end`, async (t) => {
    agent.script = sendChunks(chunks);
    const answer = await exchange(edge);
    t.is(answer.status, 200);
    t.true(answer.clean);
    t.deepEqual(answer.bytes, Buffer.concat(chunks));
  });
}

test.serial("8 MiB arrive byte for byte", async (t) => {
  const chunks = Array.from({ length: 128 }, () => randomBytes(65_536));
  agent.script = sendChunks(chunks);
  const answer = await exchange(edge);
  t.true(answer.clean);
  t.true(answer.bytes.equals(Buffer.concat(chunks)));
});

test.serial("a body with a content-length arrives byte for byte, with its length", async (t) => {
  const body = randomBytes(100_000);
  agent.script = async (reply) => {
    reply.head(200, { "content-type": "application/json", "content-length": String(body.length) });
    for (const chunk of cutAt(body, [1, 50_000])) await reply.write(chunk);
    reply.end();
  };
  const answer = await exchange(edge);
  t.true(answer.clean);
  t.true(answer.bytes.equals(body));
  t.is(answer.headers["content-length"], String(body.length));
});

test.serial("any chunking of a stream gives the same bytes", async (t) => {
  const seed = Number(process.env.FC_SEED ?? randomBytes(4).readInt32BE());
  t.log(`FC_SEED=${seed}`);
  const offsets = fc.array(fc.integer({ min: 1, max: stream.length - 1 }), { maxLength: 40 });
  await fc.assert(
    fc.asyncProperty(offsets, async (cuts) => {
      agent.script = sendChunks(cutAt(stream, cuts));
      const answer = await exchange(edge);
      return answer.clean && answer.bytes.equals(stream);
    }),
    { seed, numRuns: 100 },
  );
  t.pass();
});

test.serial(
  "field report 22: event N reaches the client before event N+1 is sent, also for a client that accepts br and gzip",
  async (t) => {
    for (const acceptEncoding of ["identity", "br, gzip"]) {
      const arrivals = Array.from({ length: 50 }, () => Promise.withResolvers<number>());
      const delaysMs: number[] = [];
      agent.script = async (reply) => {
        reply.head(200, eventStream);
        for (const arrival of arrivals) {
          const sentAt = performance.now();
          await reply.write(keepAliveComment);
          delaysMs.push((await arrival.promise) - sentAt);
        }
        reply.end();
      };
      const response = await open(edge, { headers: { "accept-encoding": acceptEncoding } }).response;
      for (const arrival of arrivals) {
        t.is((await readBytes(response, keepAliveComment.length)).toString(), keepAliveComment);
        arrival.resolve(performance.now());
      }
      t.is(await response.read(), undefined);
      delaysMs.sort((a, b) => a - b);
      t.log(
        `accept-encoding ${acceptEncoding}: median ${delaysMs[25]?.toFixed(2)} ms, slowest ${delaysMs.at(-1)?.toFixed(2)} ms`,
      );
    }
  },
);

test.serial("a stream is never compressed, and says so", async (t) => {
  agent.script = sendChunks([stream]);
  const answer = await exchange(edge, { headers: { "accept-encoding": "br, gzip" } });
  t.is(answer.headers["content-encoding"] ?? "identity", "identity");
  t.is(answer.headers["content-length"], undefined);
  t.deepEqual(answer.bytes, stream);
  const sent = agent.requests.at(-1)?.headers.find(([name]) => name === "accept-encoding");
  t.is(sent?.[1], "identity");
});

test.serial(
  "field report 21: a JSON body decodes by its own headers for a client that accepts br and gzip",
  async (t) => {
    const body = Buffer.from(JSON.stringify({ text: "a".repeat(20_000) }));
    agent.script = async (reply) => {
      reply.head(200, { "content-type": "application/json" });
      await reply.write(body);
      reply.end();
    };
    const answer = await exchange(edge, { headers: { "accept-encoding": "br, gzip" } });
    const decoders: Record<string, (bytes: Buffer) => Buffer> = { gzip: gunzipSync, br: brotliDecompressSync };
    const decode = decoders[answer.headers["content-encoding"] ?? "identity"] ?? ((bytes: Buffer) => bytes);
    t.deepEqual(decode(answer.bytes), body);
  },
);

test.serial("the headers of a stream arrive as the agent set them", async (t) => {
  agent.script = sendChunks([stream]);
  const { headers } = await exchange(edge);
  for (const [name, value] of Object.entries(eventStream)) t.is(headers[name], value);
  t.is(headers["set-cookie"], undefined);
});
