/**
 * Writes the spool's segments: lines at the end of the newest, a new one when that is full.
 *
 * An append either is in the file whole or leaves the file as it was. Where even that repair fails the segment is given up with
 * its torn end, which readers take for a damaged line, and the next append begins another. It counts no records and reads nothing.
 */
import type { SpoolFiles } from "./spool-files.ts";
import { type SpoolPosition, segmentName } from "./spool-position.ts";

/** A segment is closed when its next line would pass this, bytes. */
export const SEGMENT_BYTES = 1024 * 1024;

export class SpoolWriter {
  readonly #files: SpoolFiles;
  readonly #onSegment: (segment: number) => void;
  readonly #maxBytes: number;
  #segment: number;
  #file: number | undefined;
  #length = 0;
  /** Full or given up, and not yet on the disk. */
  #retired: number[] = [];
  #newNames = false;

  /** Writes into segments above `segment`; `onSegment` is told each. */
  constructor(
    files: SpoolFiles,
    segment: number,
    onSegment: (segment: number) => void,
    maxBytes: number = SEGMENT_BYTES,
  ) {
    this.#files = files;
    this.#segment = segment;
    this.#onSegment = onSegment;
    this.#maxBytes = maxBytes;
  }

  /** Where the next line goes; a segment below this one is complete. */
  get end(): SpoolPosition {
    return { segment: this.#file === undefined ? this.#segment + 1 : this.#segment, offset: this.#length };
  }

  /** Hands a line to the kernel. Throws the file system's error, and then nothing was written. */
  append(line: Buffer): void {
    if (this.#length + line.length > this.#maxBytes) this.#retire();
    const file = this.#file ?? this.#begin();
    try {
      for (let written = 0; written < line.length; ) {
        const count = this.#files.write(file, line.subarray(written));
        if (count === 0) throw new Error("the file system took no byte");
        written += count;
      }
    } catch (error) {
      try {
        this.#files.truncate(file, this.#length);
      } catch {
        this.#retire();
      }
      throw error;
    }
    this.#length += line.length;
  }

  /** Resolves once what was appended before the call is on the disk. One call at a time. */
  async sync(): Promise<void> {
    for (let file = this.#retired[0]; file !== undefined; file = this.#retired[0]) {
      await this.#files.sync(file);
      this.#retired.shift();
      this.#files.close(file);
    }
    if (this.#file !== undefined) await this.#files.sync(this.#file);
    if (!this.#newNames) return;
    this.#newNames = false;
    try {
      await this.#files.syncDirectory();
    } catch (error) {
      this.#newNames = true;
      throw error;
    }
  }

  close(): void {
    this.#retire();
    for (const file of this.#retired.splice(0)) this.#files.close(file);
  }

  #begin(): number {
    const segment = this.#segment + 1;
    const file = this.#files.create(segmentName(segment));
    this.#segment = segment;
    this.#file = file;
    this.#newNames = true;
    this.#onSegment(segment);
    return file;
  }

  #retire(): void {
    if (this.#file !== undefined) this.#retired.push(this.#file);
    this.#file = undefined;
    this.#length = 0;
  }
}
