/**
 * What a start finds in the spool's directory: where delivery was, which segments are left, how many records wait. It cuts off a last line
 * that a crash tore: its append had not returned, so no client saw that turn finished.
 */
import type { Log } from "../log.ts";
import type { SpoolFiles } from "./spool-files.ts";
import { LINE_FEED } from "./spool-line.ts";
import { parsePosition, SPOOL_START, type SpoolPosition, segmentName, segmentsAmong } from "./spool-position.ts";

const CURSOR_NAME = "cursor";
const NEW_CURSOR_NAME = "cursor.new";
/** A cursor's file is far smaller. */
const MAX_CURSOR_BYTES = 256;
const SCAN_BYTES = 1024 * 1024;

export interface RecoveredSpool {
  readonly cursor: SpoolPosition;
  readonly segments: number[];
  /** Lines from the cursor on that are not blank. */
  readonly backlog: number;
  /** Every new segment gets a number above this. */
  readonly lastSegment: number;
}

export const recoverSpool = async (files: SpoolFiles, log: Log): Promise<RecoveredSpool> => {
  const names = files.list();
  const stored = await files.read(CURSOR_NAME, 0, MAX_CURSOR_BYTES);
  const cursor = parsePosition(stored.toString());
  // Without it everything is sent again, which a receiver that books each turn once does not mind.
  if (cursor === undefined && stored.length > 0) log("warn", "usage_cursor_damaged");
  const from = cursor ?? SPOOL_START;
  const all = segmentsAmong(names);
  const segments = all.filter((segment) => segment >= from.segment);
  for (const segment of all) if (segment < from.segment) await files.remove(segmentName(segment));

  let backlog = 0;
  for (const segment of segments) {
    const scan = await scanSegment(files, segment, segment === from.segment ? from.offset : 0);
    const isTorn = scan.tailBytes > 0;
    const isCut = isTorn && segment === segments.at(-1);
    if (isCut) log("warn", "usage_spool_tail_cut", { segment, bytes: scan.tailBytes });
    await finishSegment(files, segment, isCut ? scan.endOfLines : undefined);
    // A torn end in the middle is a damaged line, to be put aside when its turn comes.
    backlog += scan.lines + (isTorn && !isCut ? 1 : 0);
  }
  await files.syncDirectory();
  return { cursor: from, segments, backlog, lastSegment: Math.max(from.segment, segments.at(-1) ?? 0) };
};

/** Stores where delivery is, whole or not at all. */
export const saveCursor = async (files: SpoolFiles, position: SpoolPosition): Promise<void> => {
  const file = files.create(NEW_CURSOR_NAME);
  try {
    const bytes = Buffer.from(JSON.stringify(position));
    if (files.write(file, bytes) !== bytes.length) throw new Error("the cursor was written in part");
    await files.sync(file);
  } finally {
    files.close(file);
  }
  await files.rename(NEW_CURSOR_NAME, CURSOR_NAME);
  await files.syncDirectory();
};

/** Cuts a segment to `length` where one is given, and does the sync that the process which wrote it may not have come to. */
const finishSegment = async (files: SpoolFiles, segment: number, length: number | undefined): Promise<void> => {
  const file = files.append(segmentName(segment));
  try {
    if (length !== undefined) files.truncate(file, length);
    await files.sync(file);
  } finally {
    files.close(file);
  }
};

/** Counts lines that are not blank from `offset` on, and the bytes behind the last line end. */
const scanSegment = async (files: SpoolFiles, segment: number, offset: number) => {
  let lines = 0;
  let at = offset;
  let endOfLines = offset;
  let lineStart = offset;
  for (;;) {
    const bytes = await files.read(segmentName(segment), at, SCAN_BYTES);
    if (bytes.length === 0) return { lines, endOfLines, tailBytes: at - endOfLines };
    for (let found = bytes.indexOf(LINE_FEED); found !== -1; found = bytes.indexOf(LINE_FEED, found + 1)) {
      if (at + found > lineStart) lines++;
      lineStart = at + found + 1;
      endOfLines = lineStart;
    }
    at += bytes.length;
  }
};
