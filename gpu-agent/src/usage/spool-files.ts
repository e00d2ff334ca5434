/**
 * What the spool asks of a file system, within its one directory, and Node's answer. Tests put one in its place that fails at the N-th call
 * or loses power.
 *
 * Appending is synchronous: a record must be with the kernel before its client's last event is written. What waits for the disk
 * itself (fsync) and what delivery does is not.
 */
import { closeSync, fsync, ftruncateSync, mkdirSync, openSync, readdirSync, writeSync } from "node:fs";
import { open, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

/** Names are those of files in the spool's directory, numbers are open files. */
export interface SpoolFiles {
  list(): string[];
  /** Opens for writing, empty. */
  create(name: string): number;
  /** Opens for writing at the end. */
  append(name: string): number;
  /** Writes at the end; returns how many bytes were written, which may be fewer than were given. */
  write(file: number, bytes: Uint8Array): number;
  truncate(file: number, length: number): void;
  /** Resolves once everything written before the call is on the disk. */
  sync(file: number): Promise<void>;
  close(file: number): void;
  /** Up to `length` bytes; fewer at the end, none behind it or where there is no such file. */
  read(name: string, offset: number, length: number): Promise<Buffer>;
  rename(from: string, to: string): Promise<void>;
  remove(name: string): Promise<void>;
  /** Makes new names last. */
  syncDirectory(): Promise<void>;
}

/** Usage is nobody's business but the operator's. */
const DIRECTORY_MODE = 0o700;
const FILE_MODE = 0o600;

const fsyncAsync = promisify(fsync);

/** The files of a directory, which is made where it is missing; throws where it cannot be. */
export const spoolFilesIn = (directory: string): SpoolFiles => {
  mkdirSync(directory, { recursive: true, mode: DIRECTORY_MODE });
  const at = (name: string) => join(directory, name);
  return {
    list: () => readdirSync(directory),
    create: (name) => openSync(at(name), "w", FILE_MODE),
    append: (name) => openSync(at(name), "a", FILE_MODE),
    write: (file, bytes) => writeSync(file, bytes),
    truncate: (file, length) => ftruncateSync(file, length),
    sync: (file) => fsyncAsync(file),
    close: (file) => closeSync(file),
    read: async (name, offset, length) => {
      try {
        await using file = await open(at(name));
        const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, offset);
        return buffer.subarray(0, bytesRead);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === "ENOENT") return Buffer.alloc(0);
        throw error;
      }
    },
    rename: (from, to) => rename(at(from), at(to)),
    remove: (name) => rm(at(name), { force: true }),
    syncDirectory: async () => {
      await using folder = await open(directory);
      await folder.sync();
    },
  };
};
