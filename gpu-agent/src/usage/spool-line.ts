/**
 * A usage record as one line of the spool, `<CRC-32 of the JSON, 8 hex digits> <JSON>` and LF. A flipped bit inside a number would still be
 * JSON, and a wrong bill; the sum finds it.
 *
 * It reads and writes bytes in memory alone.
 */
import { crc32 } from "node:zlib";
import { type UsageRecord, usageRecordSchema } from "@lockgate/shared-types";

export const LINE_FEED = 10;
/** A line without a record: what a probe of the disk writes, and readers skip. */
export const BLANK_LINE = Buffer.from("\n");

const SUM_DIGITS = 8;

const sumOf = (json: Buffer | string): string => crc32(json).toString(16).padStart(SUM_DIGITS, "0");

export const encodeLine = (record: UsageRecord): Buffer => {
  const json = JSON.stringify(record);
  return Buffer.from(`${sumOf(json)} ${json}\n`);
};

export type DecodedLine =
  | { readonly ok: true; readonly record: UsageRecord }
  | { readonly ok: false; readonly reason: "checksum" | "not a usage record" };

/** Reads a line back; `line` is without its LF. */
export const decodeLine = (line: Buffer): DecodedLine => {
  const json = line.subarray(SUM_DIGITS + 1);
  if (line.toString("latin1", 0, SUM_DIGITS + 1) !== `${sumOf(json)} `) return { ok: false, reason: "checksum" };
  let value: unknown;
  try {
    value = JSON.parse(json.toString());
  } catch {
    return { ok: false, reason: "not a usage record" };
  }
  const parsed = usageRecordSchema.safeParse(value);
  return parsed.success ? { ok: true, record: parsed.data } : { ok: false, reason: "not a usage record" };
};
