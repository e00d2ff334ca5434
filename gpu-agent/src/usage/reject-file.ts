/**
 * Where records go that the edge refused for good, and lines of the spool that cannot be read: a file of JSON lines for a person. One that
 * a crash interrupts may be in it twice. Nothing here reads it back.
 */
import type { UsageRecord } from "@lockgate/shared-types";
import type { SpoolFiles } from "./spool-files.ts";

export const REJECT_NAME = "rejected.jsonl";
/** Beyond this nothing more is put aside, bytes: delivery waits for a person, and a full spool then refuses turns. */
export const MAX_REJECT_BYTES = 64 * 1024 * 1024;

export interface Rejected {
  /** Unix time, ms. */
  readonly rejected_at_ms: number;
  readonly reason: string;
  /** The record; or the bytes of a line that is none, as base64. */
  readonly record?: UsageRecord;
  readonly line_base64?: string;
}

/** Appends one; resolves once it is on the disk. Rejects with the file system's error, or an Error at the bound. */
export const putAside = async (files: SpoolFiles, rejected: Rejected, maxBytes = MAX_REJECT_BYTES): Promise<void> => {
  const bytes = Buffer.from(`${JSON.stringify(rejected)}\n`);
  const last = await files.read(REJECT_NAME, Math.max(0, maxBytes - bytes.length), 1);
  if (last.length > 0) throw new Error(`${REJECT_NAME} is full; move it away`);
  const file = files.append(REJECT_NAME);
  try {
    for (let written = 0; written < bytes.length; ) written += files.write(file, bytes.subarray(written));
    await files.sync(file);
  } finally {
    files.close(file);
  }
  await files.syncDirectory();
};
