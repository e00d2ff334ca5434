/**
 * Bytes that are no HTTP, or HTTP that says two things at once. What carries the good key has a fault for which it is always refused; what was
 * altered at random carries none.
 */

import type { Draw } from "./draw.ts";
import { bytesOf } from "./framed-requests.ts";
import type { MalformedWorld } from "./malformed-world.ts";

export interface Wild {
  readonly kind: string;
  readonly bytes: Buffer;
}

const strangers = [
  bytesOf({
    kind: "",
    method: "POST",
    target: "/v1/chat/completions",
    fields: [
      ["authorization", "Bearer lg_00000000000000000000000000000000_stranger"],
      ["content-type", "application/json"],
    ],
    body: Buffer.from('{"model":"m","messages":[]}'),
  }),
  bytesOf({ kind: "", method: "GET", target: "/v1/models?a=b", fields: [["x-api-key", "nobody"]] }),
  bytesOf({ kind: "", method: "GET", target: "/admin/v1/keys", fields: [["authorization", "Bearer nobody"]] }),
];

/** A stranger's request with some bytes turned, taken out, put in, or said twice. */
const mutated = (draw: Draw): Buffer => {
  let bytes = draw.pick(strangers);
  for (let change = draw.int(1, 6); change > 0; change -= 1) {
    const at = draw.int(0, bytes.length - 1);
    const before = bytes.subarray(0, at);
    bytes = Buffer.concat(
      draw.pick([
        () => [before, draw.bytes(1, 1), bytes.subarray(at + 1)],
        () => [before, bytes.subarray(at + draw.int(1, 8))],
        () => [before, draw.bytes(1, 8), bytes.subarray(at)],
        () => [before, bytes.subarray(Math.max(0, at - draw.int(1, 40)), at), bytes.subarray(at)],
        () => [before, Buffer.from(draw.pick(["\n", "\r", "\r\n", "\r\n ", "\0", ":", " "])), bytes.subarray(at)],
      ])(),
    );
    if (bytes.length === 0) return draw.bytes(1, 20);
  }
  return bytes;
};

/** A message with a fault in its frame, from somebody with a good key. */
const misframed = (draw: Draw, { key }: MalformedWorld): string => {
  const word = draw.text(1, 9);
  const base = `authorization: Bearer ${key}\r\ncontent-type: application/json\r\n`;
  const post = `POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\n${base}`;
  const get = (target: string): string => `GET ${target} HTTP/1.1\r\nhost: a\r\n${base}\r\n`;
  const chunked = `${post}transfer-encoding: chunked\r\n\r\n`;
  const control = String.fromCharCode(draw.pick([0, 1, 8, 11, 12, 14, 31, 127]));
  return draw.pick([
    () =>
      `${post}content-length: ${draw.pick(["", "+2", "-2", "0x2", "2,2", "2 2", word, "9".repeat(draw.int(20, 40))])}\r\n\r\n{}`,
    () => `${post}content-length: 2\r\ncontent-length: ${draw.int(3, 99)}\r\n\r\n{}`,
    () => `${post}content-length: ${draw.int(3, 5_000_000)}\r\n\r\n{}`,
    () =>
      `${post}transfer-encoding: ${draw.pick([word, `chunked, ${word}`, "identity", "\x0bchunked", "chunked;q=1"])}\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
    () => `${post}transfer-encoding${draw.pick([" ", "\t"])}: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
    () =>
      `${chunked}${draw.pick(["0x2", "-2", "2g", "", " 2", "fffffffffffffffff", word.replaceAll(/[a-f]/g, "z")])}\r\n{}\r\n0\r\n\r\n`,
    () => `${chunked}${draw.int(3, 9)}\r\n{}\r\n0\r\n\r\n`,
    () => `${chunked}2\r\n{}${word}\r\n0\r\n\r\n`,
    () => `${chunked}2\r\n{}\r\n`,
    () => `${post}x-${word}: a\r\n ${word}: b\r\ncontent-length: 2\r\n\r\n{}`,
    () => `${post}x-${word}: a\0b\r\ncontent-length: 2\r\n\r\n{}`,
    () => `${post}${draw.pick(["", " ", "x y", "(", "\xff", "x,"])}: a\r\ncontent-length: 2\r\n\r\n{}`,
    () => `${post}${word}\r\ncontent-length: 2\r\n\r\n{}`,
    () => get(`/v1/models/${control}`),
    () => get(`/v1/models/${String.fromCharCode(draw.int(128, 255))}`),
    () => get(draw.pick([word, `@${word}`, `:80/${word}`, "?", "", `${word}:80`])),
    () =>
      get("/v1/models").replace(
        "HTTP/1.1",
        draw.pick(["HTTP/2.0", "HTTP/0.9", "HTTP/1.2", "http/1.1", "HTTP/1.1 x", word, "HTTP/"]),
      ),
    () =>
      get("/v1/models").replace("host: a\r\n", draw.pick(["", "host: \r\n", "host: a\r\nhost: b\r\n", " host: a\r\n"])),
    () => get("/v1/models").replace("GET", draw.pick([word, word.toUpperCase(), "", "G ET", "\xffGET"])),
    () => get(`/v1/models?${draw.text(70_000, 90_000)}`),
    () => get("/v1/models").slice(0, -draw.int(1, 60)),
  ])();
};

/** Bytes for one connection, after which its sender says no more. */
export const drawWild = (draw: Draw, world: MalformedWorld): Wild => {
  if (draw.chance(0.2)) return { kind: "random bytes", bytes: draw.bytes(1, 300) };
  if (draw.chance(0.5)) return { kind: "mutated", bytes: mutated(draw) };
  return { kind: "misframed", bytes: Buffer.from(misframed(draw, world), "latin1") };
};
