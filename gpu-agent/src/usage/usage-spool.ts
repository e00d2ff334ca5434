/**
 * The spool: usage records on their way to the edge, in a directory, in order, until the edge acknowledged them.
 *
 * `append` hands a record to the kernel before it returns, so a killed process loses none; the disk follows in groups (fsync), so a lost
 * power supply costs at most one group. Whoever takes a turn reserves its record's place first: a full or failing spool shows before the
 * turn, not after it. Deliberately absent: the network (usage-delivery.ts).
 */
import type { UsageRecord } from "@lockgate/shared-types";
import type { Log } from "../log.ts";
import type { Clock, Timer } from "../replicas/clock.ts";
import { putAside } from "./reject-file.ts";
import type { SpoolFiles } from "./spool-files.ts";
import { BLANK_LINE, encodeLine } from "./spool-line.ts";
import { type SpoolPosition, segmentName } from "./spool-position.ts";
import { readBatch, type SpoolBatch } from "./spool-reader.ts";
import { recoverSpool, saveCursor } from "./spool-recovery.ts";
import { SpoolWriter } from "./spool-writer.ts";

/** A record is on the disk so long after it was appended, at most; or earlier, when so many wait for it. */
export const SYNC_INTERVAL_MS = 50;
export const SYNC_RECORDS = 64;
/** After a write or fsync that failed no turn is taken for so long; then the disk is probed. */
export const FAULT_PAUSE_MS = 2_000;

export interface SpoolOptions {
  readonly files: SpoolFiles;
  /** Records that may wait. */
  readonly maxRecords: number;
  readonly clock: Clock;
  /** Unix time, ms. */
  readonly nowMs: () => number;
  readonly log: Log;
  /** For tests at the bound. */
  readonly segmentBytes?: number;
}

export class UsageSpool {
  readonly #options: SpoolOptions;
  readonly #segments: number[];
  readonly #writer: SpoolWriter;
  #cursor: SpoolPosition;
  #backlog: number;
  #reserved = 0;
  #rejected = 0;
  #unsynced = 0;
  #syncTimer: Timer | undefined;
  /** Syncs run one after the other. */
  #syncs: Promise<boolean> = Promise.resolve(true);
  #probeAtMs: number | undefined;
  #closed = false;
  #onAppend: () => void = () => {};

  /** Opens what an earlier process left. Rejects with the file system's error. */
  static async open(options: SpoolOptions): Promise<UsageSpool> {
    return new UsageSpool(options, await recoverSpool(options.files, options.log));
  }

  private constructor(options: SpoolOptions, found: Awaited<ReturnType<typeof recoverSpool>>) {
    this.#options = options;
    this.#cursor = found.cursor;
    this.#segments = found.segments;
    this.#backlog = found.backlog;
    const { files, segmentBytes } = options;
    const onSegment = (segment: number) => void this.#segments.push(segment);
    this.#writer = new SpoolWriter(files, found.lastSegment, onSegment, segmentBytes);
  }

  /** Records that the edge has not acknowledged. */
  get backlog(): number {
    return this.#backlog;
  }

  /** What was put into the reject file since the spool was opened. */
  get rejected(): number {
    return this.#rejected;
  }

  /** Whether another turn could reserve a place now. Probes a disk that failed, once its pause is over. */
  takesTurns(): boolean {
    this.#probe();
    if (this.#closed || this.#probeAtMs !== undefined) return false;
    return this.#backlog + this.#reserved < this.#options.maxRecords;
  }

  /** `listener` is told of every record that comes; there is one. */
  watch(listener: () => void): void {
    this.#onAppend = listener;
  }

  /** Takes a place for a turn's record: returns what gives it back, or undefined where the spool is full or failing. */
  reserve(): (() => void) | undefined {
    if (!this.takesTurns()) return undefined;
    this.#reserved++;
    let held = true;
    return () => {
      if (held) this.#reserved--;
      held = false;
    };
  }

  /**
   * Writes a record; true once the kernel has it. A turn that moved has more records than its one place: the bound is then passed by
   * those, which are few.
   */
  append(record: UsageRecord): boolean {
    if (this.#closed || !this.#write(encodeLine(record))) return false;
    this.#backlog++;
    this.#onAppend();
    return true;
  }

  /** Resolves with whether everything appended before the call is on the disk. */
  sync(): Promise<boolean> {
    this.#syncs = this.#syncs.then(() => this.#syncOnce());
    return this.#syncs;
  }

  /** What is to be delivered next; the same again until it is acknowledged. */
  next(maxRecords: number): Promise<SpoolBatch> {
    const extent = { segments: this.#segments, end: this.#writer.end };
    return readBatch(this.#options.files, extent, this.#cursor, maxRecords);
  }

  /**
   * The `count` lines up to `end` are dealt with. Delivery goes on behind them also where the cursor cannot be stored: after a crash
   * they are then sent again.
   */
  async acknowledge(end: SpoolPosition, count: number): Promise<void> {
    const { files, log } = this.#options;
    this.#cursor = end;
    // The torn end of a segment that was given up was never counted.
    this.#backlog = Math.max(0, this.#backlog - count);
    try {
      await saveCursor(files, end);
      for (let oldest = this.#segments[0]; oldest !== undefined && oldest < end.segment; oldest = this.#segments[0]) {
        await files.remove(segmentName(oldest));
        this.#segments.shift();
      }
    } catch (error) {
      log("error", "usage_cursor_not_stored", { error: (error as Error).message });
    }
  }

  /** Puts what cannot be delivered into the reject file; it is to be acknowledged afterwards. Rejects where that fails. */
  async reject(reason: string, what: { readonly record: UsageRecord } | { readonly line: Buffer }): Promise<void> {
    const { files, nowMs } = this.#options;
    const content = "record" in what ? what : { line_base64: what.line.toString("base64") };
    await putAside(files, { rejected_at_ms: nowMs(), reason, ...content });
    this.#rejected++;
  }

  /** Syncs and closes; nothing can be appended any more. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.sync();
    this.#syncTimer?.cancel();
    this.#writer.close();
  }

  #write(line: Buffer): boolean {
    try {
      this.#writer.append(line);
    } catch (error) {
      this.#fault("usage_not_written", error);
      return false;
    }
    this.#unsynced++;
    if (this.#unsynced >= SYNC_RECORDS) void this.sync();
    else this.#syncTimer ??= this.#options.clock.after(SYNC_INTERVAL_MS, () => void this.sync());
    return true;
  }

  async #syncOnce(): Promise<boolean> {
    this.#syncTimer?.cancel();
    this.#syncTimer = undefined;
    const count = this.#unsynced;
    if (count === 0) return true;
    this.#unsynced = 0;
    try {
      await this.#writer.sync();
      return true;
    } catch (error) {
      this.#unsynced += count;
      this.#fault("usage_not_synced", error);
      this.#syncTimer ??= this.#options.clock.after(FAULT_PAUSE_MS, () => void this.sync());
      return false;
    }
  }

  #fault(event: string, error: unknown): void {
    this.#probeAtMs = this.#options.clock.now() + FAULT_PAUSE_MS;
    this.#options.log("error", event, { error: (error as Error).message });
  }

  /** After a fault and its pause: a line that says nothing tells whether the disk takes writes again. */
  #probe(): void {
    if (this.#probeAtMs === undefined || this.#options.clock.now() < this.#probeAtMs) return;
    this.#probeAtMs = undefined;
    this.#write(BLANK_LINE);
  }
}
