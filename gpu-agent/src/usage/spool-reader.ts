/**
 * Reads what is next in the spool: some records in order, or one line that is none of ours. It moves no cursor and decides nothing.
 */
import type { UsageRecord } from "@lockgate/shared-types";
import type { SpoolFiles } from "./spool-files.ts";
import { decodeLine, LINE_FEED } from "./spool-line.ts";
import { type SpoolPosition, segmentName } from "./spool-position.ts";

/** Bytes that are read at once; far above the longest line. */
export const READ_BYTES = 256 * 1024;

/** `end` is where to read on once these are dealt with. */
export type SpoolBatch =
  | { readonly kind: "records"; readonly records: readonly UsageRecord[]; readonly end: SpoolPosition }
  | { readonly kind: "damaged"; readonly line: Buffer; readonly reason: string; readonly end: SpoolPosition }
  | { readonly kind: "empty" };

/** The segments as they are now. */
export interface SpoolExtent {
  /** In order; the newest may be the one that is written. */
  readonly segments: readonly number[];
  /** Nothing is read from here on. */
  readonly end: SpoolPosition;
}

/** Up to `maxRecords` from `from` on. A damaged line comes alone, so that it can be put aside before what follows it is sent. */
export const readBatch = async (
  files: SpoolFiles,
  { segments, end }: SpoolExtent,
  from: SpoolPosition,
  maxRecords: number,
): Promise<SpoolBatch> => {
  let { segment, offset } = from;
  for (;;) {
    const length = segment === end.segment ? Math.min(READ_BYTES, end.offset - offset) : READ_BYTES;
    const bytes = length > 0 ? await files.read(segmentName(segment), offset, length) : Buffer.alloc(0);
    if (bytes.length === 0) {
      // Segments that were begun since `end` was taken wait: more may have been written to the one before them, too.
      const next = segments.find((number) => number > segment && number <= end.segment);
      if (next === undefined) return { kind: "empty" };
      segment = next;
      offset = 0;
      continue;
    }
    const found = linesOf(bytes, maxRecords);
    offset += found.length;
    if (found.kind !== "blank") return { ...found, end: { segment, offset } };
  }
};

/** What the first lines of `bytes` hold, and how many bytes that took. */
const linesOf = (bytes: Buffer, maxRecords: number) => {
  const records: UsageRecord[] = [];
  let at = 0;
  while (records.length < maxRecords && at < bytes.length) {
    const lineEnd = bytes.indexOf(LINE_FEED, at);
    // The rest of this line was not read yet; or, as the only one, it has no end: torn by a crash, or nothing of ours.
    if (lineEnd === -1 && at > 0) break;
    const line = bytes.subarray(at, lineEnd === -1 ? bytes.length : lineEnd);
    const next = lineEnd === -1 ? bytes.length : lineEnd + 1;
    if (line.length > 0) {
      const decoded = lineEnd === -1 ? ({ ok: false, reason: "no line end" } as const) : decodeLine(line);
      if (decoded.ok) records.push(decoded.record);
      else if (records.length > 0) break;
      else return { kind: "damaged", line, reason: decoded.reason, length: next } as const;
    }
    at = next;
  }
  return records.length > 0
    ? ({ kind: "records", records, length: at } as const)
    : ({ kind: "blank", length: at } as const);
};
