/**
 * An HTTP answer as pieces with the times at which they came: when it is whole, and when each of its events arrived. Pure.
 *
 * It reads what the bench's workers and upstream send, no more: a head, then a body in chunks or of an announced length.
 */
import { stampPattern } from "./edge-load.ts";

export interface Arrival {
  /** On the clock of the stamps. */
  readonly atUs: number;
  readonly bytes: Buffer;
}

const HEAD_END = "\r\n\r\n";
/** With the line end before it, so that no header field that ends in 0 looks like it. */
const LAST_CHUNK = Buffer.from("\r\n0\r\n\r\n");

/** Whether all of a response has come. Asked with each piece, so it looks at as little as possible. */
export const isComplete = (arrivals: readonly Arrival[]): boolean => {
  const last = arrivals.at(-1)?.bytes;
  if (last === undefined) return false;
  const tail =
    last.length >= LAST_CHUNK.length
      ? last
      : Buffer.concat(arrivals.slice(-LAST_CHUNK.length).map(({ bytes }) => bytes));
  if (tail.subarray(-LAST_CHUNK.length).equals(LAST_CHUNK)) return true;
  // A body of announced length is an error's: short, so it may be read each time.
  const first = arrivals[0]?.bytes.toString("latin1") ?? "";
  const length = /\r\ncontent-length: (\d+)\r\n/i.exec(first)?.[1];
  if (length === undefined) return false;
  const bytes = arrivals.reduce((sum, arrival) => sum + arrival.bytes.length, 0);
  return bytes >= first.indexOf(HEAD_END) + HEAD_END.length + Number(length);
};

interface Segment {
  /** Where it begins in what came over the wire, and in the body. */
  readonly rawAt: number;
  readonly bodyAt: number;
  readonly text: string;
}

/** The chunks of a body that begins at `at`. */
const segmentsOf = (raw: string, at: number): Segment[] => {
  const segments: Segment[] = [];
  let [rawAt, bodyAt] = [at, 0];
  for (;;) {
    const lineEnd = raw.indexOf("\r\n", rawAt);
    const length = Number.parseInt(raw.slice(rawAt, lineEnd), 16);
    if (lineEnd < 0 || !(length > 0)) return segments;
    segments.push({ rawAt: lineEnd + 2, bodyAt, text: raw.slice(lineEnd + 2, lineEnd + 2 + length) });
    rawAt = lineEnd + 2 + length + 2;
    bodyAt += length;
  }
};

export interface ReadAnswer {
  readonly status: number;
  readonly text: string;
  /** Of each event: when it was written, and when the end of its stamp arrived. */
  readonly events: readonly { readonly writtenUs: number; readonly arrivedUs: number }[];
}

/** Reads a whole answer. */
export const readAnswer = (arrivals: readonly Arrival[]): ReadAnswer => {
  const raw = Buffer.concat(arrivals.map(({ bytes }) => bytes)).toString("latin1");
  const bodyAt = raw.indexOf(HEAD_END) + HEAD_END.length;
  const head = raw.slice(0, bodyAt);
  const segments = /\r\ntransfer-encoding: chunked\r\n/i.test(head)
    ? segmentsOf(raw, bodyAt)
    : [{ rawAt: bodyAt, bodyAt: 0, text: raw.slice(bodyAt) }];
  const text = segments.map((segment) => segment.text).join("");
  const ends: number[] = [];
  for (const { bytes } of arrivals) ends.push((ends.at(-1) ?? 0) + bytes.length);
  let [segment, arrival] = [0, 0];
  const events = [...text.matchAll(stampPattern)].map((match) => {
    const last = match.index + match[0].length - 1;
    while ((segments[segment + 1]?.bodyAt ?? Number.POSITIVE_INFINITY) <= last) segment += 1;
    const { rawAt = 0, bodyAt: from = 0 } = segments[segment] ?? {};
    while ((ends[arrival] ?? Number.POSITIVE_INFINITY) <= rawAt + last - from) arrival += 1;
    return { writtenUs: Number(match[1]), arrivedUs: arrivals[arrival]?.atUs ?? Number.NaN };
  });
  return { status: Number(/^HTTP\/1\.1 (\d+) /.exec(head)?.[1]), text, events };
};
