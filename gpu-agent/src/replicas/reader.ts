/**
 * Bytes of an engine's stdout in, messages out. Token lines, nearly all of the traffic, are read from the bytes themselves: no string and
 * no object is made for them. Every other line goes through the grammar (wire.ts).
 *
 * Knows nothing of turns, locks or processes.
 */
import { type EngineMessage, parseLine } from "./wire.ts";

/** Longest line an engine may send; a longer one breaks the grammar. DONE is under 200 bytes. */
export const MAX_LINE_BYTES = 1024 * 1024;

const TOO_LONG = `a line of more than ${MAX_LINE_BYTES} bytes`;

export interface ReaderSink {
  /** A `T` or `BT` line; slot and turn are -1 where the line names none. */
  token(id: number, slot: number, turn: number): void;
  message(message: EngineMessage): void;
}

const LF = 10;
const CR = 13;
const SPACE = 32;
const ZERO = 48;
const LETTER_B = 66;
const LETTER_T = 84;
const turnWord = Buffer.from(" turn=");
const utf8 = new TextDecoder("utf-8", { fatal: true });

export class EngineReader {
  readonly #sink: ReaderSink;
  #carried: Buffer[] = [];
  #carriedBytes = 0;
  #broken = false;
  /** Where the last number ended; a field so that parsing a token makes no object. */
  #at = 0;

  constructor(sink: ReaderSink) {
    this.#sink = sink;
  }

  /** Takes the next bytes. After a line that breaks the grammar nothing more is reported. */
  push(chunk: Buffer): void {
    let start = 0;
    while (!this.#broken) {
      const end = chunk.indexOf(LF, start);
      if (end === -1) break;
      if (this.#carriedBytes === 0) {
        this.#line(chunk, start, end);
      } else {
        const line = Buffer.concat([...this.#carried, chunk.subarray(start, end)]);
        this.#carried = [];
        this.#carriedBytes = 0;
        this.#line(line, 0, line.length);
      }
      start = end + 1;
    }
    if (this.#broken || start >= chunk.length) return;
    const rest = chunk.subarray(start);
    // One byte more than a line may have: it may be the CR of a line's end whose LF has not come yet.
    if (this.#carriedBytes + rest.length > MAX_LINE_BYTES + 1) {
      this.#break("", TOO_LONG);
      return;
    }
    this.#carried.push(rest);
    this.#carriedBytes += rest.length;
  }

  #break(line: string, reason: string): void {
    this.#broken = true;
    this.#carried = [];
    this.#carriedBytes = 0;
    this.#sink.message({ kind: "malformed", line, reason });
  }

  #line(bytes: Buffer, start: number, lineEnd: number): void {
    const end = lineEnd > start && bytes[lineEnd - 1] === CR ? lineEnd - 1 : lineEnd;
    if (end === start || this.#tokenLine(bytes, start, end)) return;
    const message = this.#parse(bytes, start, end);
    if (message.kind === "malformed") this.#break(message.line, message.reason);
    else if (message.kind === "token") this.#sink.token(message.id, message.slot, message.turn);
    else this.#sink.message(message);
  }

  #parse(bytes: Buffer, start: number, end: number): EngineMessage {
    if (end - start > MAX_LINE_BYTES) return { kind: "malformed", line: "", reason: TOO_LONG };
    try {
      return parseLine(utf8.decode(bytes.subarray(start, end)));
    } catch {
      return { kind: "malformed", line: "", reason: "a line that is not UTF-8" };
    }
  }

  /** Reads `T <id>` / `BT <slot> <id>`, with or without ` turn=<n>`. False: not such a line, or one with more in it. */
  #tokenLine(bytes: Buffer, start: number, end: number): boolean {
    const batched = bytes[start] === LETTER_B;
    this.#at = batched ? start + 1 : start;
    if (bytes[this.#at] !== LETTER_T || bytes[this.#at + 1] !== SPACE) return false;
    this.#at += 2;
    let slot = -1;
    if (batched) {
      slot = this.#number(bytes, end);
      if (slot < 0 || bytes[this.#at] !== SPACE) return false;
      this.#at++;
    }
    const id = this.#number(bytes, end);
    if (id < 0) return false;
    if (this.#at === end) {
      this.#sink.token(id, slot, -1);
      return true;
    }
    for (const byte of turnWord) if (bytes[this.#at++] !== byte) return false;
    const turn = this.#number(bytes, end);
    if (turn < 0 || this.#at !== end) return false;
    this.#sink.token(id, slot, turn);
    return true;
  }

  /** A run of 1 to 15 digits from #at on, which it moves; -1 for none. */
  #number(bytes: Buffer, end: number): number {
    const from = this.#at;
    let value = 0;
    while (this.#at < end) {
      const digit = (bytes[this.#at] as number) - ZERO;
      if (digit < 0 || digit > 9) break;
      value = value * 10 + digit;
      this.#at++;
    }
    const digits = this.#at - from;
    return digits === 0 || digits > 15 ? -1 : value;
  }
}
