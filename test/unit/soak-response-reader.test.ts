import test from "ava";
import fc from "fast-check";
import { ResponseReader } from "../soak/response-reader.ts";

const counted = (status: number, body: string): string =>
  `HTTP/1.1 ${status} Some\r\nX-Request-Id: req_1\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
const chunked = (...parts: readonly string[]): string =>
  `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${parts
    .map((part) => `${Buffer.byteLength(part).toString(16)}\r\n${part}\r\n`)
    .join("")}0\r\n\r\n`;

const bytes = Buffer.from(counted(404, "né") + chunked("data: a\n\n", "é", "x".repeat(300)) + counted(200, ""));

test("answers behind each other are told apart, however their bytes are cut", (t) => {
  const whole = new ResponseReader();
  whole.push(bytes);
  t.deepEqual(
    whole.complete.map(({ status, body }) => [status, body]),
    [
      [404, "né"],
      [200, `data: a\n\né${"x".repeat(300)}`],
      [200, ""],
    ],
  );
  t.is(whole.complete[0]?.headers.get("x-request-id"), "req_1");
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1 }), (sizes) => {
      const reader = new ResponseReader();
      for (let at = 0, turn = 0; at < bytes.length; turn++) {
        const size = sizes[turn % sizes.length] ?? 1;
        reader.push(bytes.subarray(at, at + size));
        at += size;
      }
      t.deepEqual(reader.all(), whole.all());
      t.is(reader.bodyBytes, whole.bodyBytes);
    }),
  );
});

test("an answer that stops early is told as far as it came, and not as complete", (t) => {
  const reader = new ResponseReader();
  reader.push(Buffer.from(chunked("data: a\n\n").slice(0, -5)));
  t.deepEqual(reader.complete, []);
  t.like(reader.all()[0], { status: 200, body: "data: a\n\n", complete: false });
});

test("bytes that are no HTTP, and a line without an end, are refused", (t) => {
  t.throws(() => new ResponseReader().push(Buffer.from("SSH-2.0\r\n\r\n")), { message: /not a status line/ });
  const atTheBound = Buffer.alloc(64 * 1024, "a");
  t.notThrows(() => new ResponseReader().push(atTheBound));
  t.throws(() => new ResponseReader().push(Buffer.concat([atTheBound, Buffer.from("a")])), {
    message: /without an end/,
  });
});
