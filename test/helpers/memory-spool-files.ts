/**
 * The spool's file system in memory: it counts calls, fails at the ones a test names, and can lose its process or its power. What was not
 * synced may be lost with the power, in part or whole, names that the directory was not synced for too.
 */
import type { SpoolFiles } from "../../gpu-agent/src/usage/spool-files.ts";

interface Inode {
  data: Buffer;
  /** What is on the disk. */
  synced: Buffer;
}

/** before: nothing happens. after: it happens, and is called a failure all the same. partial: half of the bytes of a write. */
export type FaultKind = "before" | "after" | "partial";

export interface Fault {
  /** Number of the call, from 1. */
  readonly at: number;
  readonly kind: FaultKind;
}

export class MemorySpoolFiles implements SpoolFiles {
  /** Calls so far, by name and in order. */
  readonly calls: string[] = [];
  #names = new Map<string, Inode>();
  #syncedNames = new Map<string, Inode>();
  readonly #open = new Map<number, Inode>();
  #files = 0;
  faults: readonly Fault[] = [];
  /** Awaited by each asynchronous call before it looks at anything. */
  pause: () => Promise<void> = async () => {};
  /** Most bytes that one write takes. */
  writeBytes = Number.POSITIVE_INFINITY;

  get openFiles(): number {
    return this.#open.size;
  }

  /** The names as they are, with the text of each file. */
  get contents(): Readonly<Record<string, string>> {
    return Object.fromEntries([...this.#names].map(([name, { data }]) => [name, data.toString()]));
  }

  /** Puts a file there, synced. */
  put(name: string, content: string | Buffer): void {
    const data = Buffer.from(content);
    const inode = { data, synced: data };
    this.#names.set(name, inode);
    this.#syncedNames.set(name, inode);
  }

  /** The process is gone: open files with it, everything written stays. */
  killProcess(): void {
    this.#open.clear();
    this.faults = [];
  }

  /** The power is gone: of what was not synced `share` (0 to 1) of the bytes is left, and the new names if `keepsNames`. */
  losePower(share: number, keepsNames: boolean): void {
    this.killProcess();
    if (!keepsNames) this.#names = new Map(this.#syncedNames);
    for (const inode of this.#names.values()) {
      const extra = inode.data.subarray(inode.synced.length);
      inode.data = Buffer.concat([inode.synced, extra.subarray(0, Math.floor(extra.length * share))]);
      inode.synced = inode.data;
    }
    this.#syncedNames = new Map(this.#names);
  }

  list(): string[] {
    return this.#call("list", () => [...this.#names.keys()]);
  }

  create(name: string): number {
    return this.#call("create", () => {
      const inode = { data: Buffer.alloc(0), synced: Buffer.alloc(0) };
      this.#names.set(name, inode);
      return this.#opened(inode);
    });
  }

  append(name: string): number {
    return this.#call("append", () => {
      const inode = this.#names.get(name) ?? { data: Buffer.alloc(0), synced: Buffer.alloc(0) };
      this.#names.set(name, inode);
      return this.#opened(inode);
    });
  }

  write(file: number, bytes: Uint8Array): number {
    const put = (count: number): number => {
      const inode = this.#inode(file);
      inode.data = Buffer.concat([inode.data, bytes.subarray(0, count)]);
      return count;
    };
    return this.#call(
      "write",
      () => put(Math.min(bytes.length, this.writeBytes)),
      () => put(Math.floor(bytes.length / 2)),
    );
  }

  truncate(file: number, length: number): void {
    this.#call("truncate", () => {
      const inode = this.#inode(file);
      inode.data = inode.data.subarray(0, length);
      if (inode.synced.length > length) inode.synced = inode.data;
    });
  }

  async sync(file: number): Promise<void> {
    const inode = this.#inode(file);
    const { data } = inode;
    await this.pause();
    this.#call("sync", () => {
      inode.synced = data;
    });
  }

  close(file: number): void {
    this.#call("close", () => {
      if (!this.#open.delete(file)) throw new Error("EBADF");
    });
  }

  async read(name: string, offset: number, length: number): Promise<Buffer> {
    await this.pause();
    return this.#call("read", () => Buffer.from(this.#names.get(name)?.data.subarray(offset, offset + length) ?? []));
  }

  async rename(from: string, to: string): Promise<void> {
    await this.pause();
    this.#call("rename", () => {
      const inode = this.#names.get(from);
      if (inode === undefined) throw new Error("ENOENT");
      this.#names.delete(from);
      this.#names.set(to, inode);
    });
  }

  async remove(name: string): Promise<void> {
    await this.pause();
    this.#call("remove", () => this.#names.delete(name));
  }

  async syncDirectory(): Promise<void> {
    const names = new Map(this.#names);
    await this.pause();
    this.#call("syncDirectory", () => {
      this.#syncedNames = names;
    });
  }

  #opened(inode: Inode): number {
    this.#open.set(++this.#files, inode);
    return this.#files;
  }

  #inode(file: number): Inode {
    const inode = this.#open.get(file);
    if (inode === undefined) throw new Error("EBADF");
    return inode;
  }

  #call<T>(name: string, effect: () => T, half: () => unknown = () => {}): T {
    this.calls.push(name);
    const fault = this.faults.find(({ at }) => at === this.calls.length);
    if (fault === undefined) return effect();
    if (fault.kind === "after") effect();
    if (fault.kind === "partial") half();
    throw new Error(`EIO at call ${this.calls.length}, ${name}`);
  }
}
