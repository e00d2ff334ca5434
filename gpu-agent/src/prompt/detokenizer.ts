/**
 * Turns token ids into text, one token at a time, never cutting a character: bytes of an unfinished UTF-8 sequence are carried to
 * the next token (a flag may be eight tokens). What it emits, joined, is what one `TextDecoder` would make of all the bytes.
 *
 * This is on the path of every token, so the text of a token that is whole by itself is decoded once per model and then shared.
 * Deliberately absent: which tokens end a turn, and stop strings (stop-strings.ts).
 */
import type { PieceTable } from "@lockgate/native";

/** Most bytes of a UTF-8 sequence that can be waiting for its last one. */
const MAX_CARRIED_BYTES = 3;

/** A piece that cannot be decoded by itself: it begins, continues or breaks a sequence. */
const NOT_WHOLE = null;

/** `ignoreBOM` keeps a U+FEFF that the model wrote at the start; without it the decoder would swallow it. */
const lenient = new TextDecoder("utf-8", { fatal: false, ignoreBOM: true });
const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The texts of one model's tokens, made on first use. One per loaded model, shared by all its turns. */
export interface PieceTexts {
  readonly pieces: PieceTable;
  /** By token id: its text, NOT_WHOLE, or undefined where it was not used yet. One entry a token of the vocabulary. */
  readonly texts: (string | null | undefined)[];
  /** Work space for carried bytes and one piece; used within a single call only. */
  readonly scratch: Uint8Array;
}

export interface Detokenizer {
  /** The text that the token completes, perhaps "". Throws RangeError for an id outside the vocabulary (the engine is broken). */
  push(token: number): string;
  /** What is left at the end of the turn: one U+FFFD for an unfinished sequence, else "". */
  flush(): string;
}

/** Prepares a model's piece table for its detokenizers. */
export const createPieceTexts = (pieces: PieceTable): PieceTexts => {
  let longestBytes = 0;
  for (let token = 0; token + 1 < pieces.offsets.length; token += 1) {
    longestBytes = Math.max(longestBytes, (pieces.offsets[token + 1] ?? 0) - (pieces.offsets[token] ?? 0));
  }
  const texts = new Array<string | null | undefined>(Math.max(0, pieces.offsets.length - 1)).fill(undefined);
  return { pieces, texts, scratch: new Uint8Array(longestBytes + MAX_CARRIED_BYTES) };
};

const pieceBytes = ({ offsets, bytes }: PieceTable, token: number): Uint8Array => {
  const start = offsets[token];
  const end = offsets[token + 1];
  if (start === undefined || end === undefined) throw new RangeError(`token ${token} is outside the vocabulary`);
  return bytes.subarray(start, end);
};

const wholeText = (bytes: Uint8Array): string | null => {
  try {
    return strict.decode(bytes);
  } catch {
    return NOT_WHOLE;
  }
};

/** Bytes that a sequence with this first byte has (Unicode 16, table 3-7); 0 for a byte that begins none of several bytes. */
const sequenceLength = (lead: number): number => {
  if (lead >= 0xc2 && lead <= 0xdf) return 2;
  if (lead >= 0xe0 && lead <= 0xef) return 3;
  if (lead >= 0xf0 && lead <= 0xf4) return 4;
  return 0;
};

/** Whether `second` may follow `lead`: the table excludes overlong forms, surrogates and what lies above U+10FFFF. */
const secondByteFits = (lead: number, second: number): boolean => {
  const lowest = lead === 0xe0 ? 0xa0 : lead === 0xf0 ? 0x90 : 0x80;
  const highest = lead === 0xed ? 0x9f : lead === 0xf4 ? 0x8f : 0xbf;
  return second >= lowest && second <= highest;
};

/** How many of the last bytes, 0..3, are a sequence that more bytes could still complete. */
const unfinishedBytes = (bytes: Uint8Array, length: number): number => {
  for (let count = 1; count <= MAX_CARRIED_BYTES && count <= length; count += 1) {
    const lead = bytes[length - count] ?? 0;
    if (lead >= 0x80 && lead <= 0xbf) continue;
    if (sequenceLength(lead) <= count) return 0;
    return count === 1 || secondByteFits(lead, bytes[length - count + 1] ?? 0) ? count : 0;
  }
  return 0;
};

/** A detokenizer for one turn. */
export const createDetokenizer = ({ pieces, texts, scratch }: PieceTexts): Detokenizer => {
  const carried = new Uint8Array(MAX_CARRIED_BYTES);
  let carriedBytes = 0;

  const push = (token: number): string => {
    let text = texts[token];
    if (text === undefined) {
      text = wholeText(pieceBytes(pieces, token));
      texts[token] = text;
    }
    if (text !== NOT_WHOLE && (carriedBytes === 0 || text === "")) return text;
    const piece = pieceBytes(pieces, token);
    scratch.set(carried.subarray(0, carriedBytes));
    scratch.set(piece, carriedBytes);
    const length = carriedBytes + piece.length;
    carriedBytes = unfinishedBytes(scratch, length);
    const wholeBytes = length - carriedBytes;
    carried.set(scratch.subarray(wholeBytes, length));
    return wholeBytes === 0 ? "" : lenient.decode(scratch.subarray(0, wholeBytes));
  };

  const flush = (): string => {
    const rest = carriedBytes === 0 ? "" : lenient.decode(carried.subarray(0, carriedBytes));
    carriedBytes = 0;
    return rest;
  };

  return { push, flush };
};
