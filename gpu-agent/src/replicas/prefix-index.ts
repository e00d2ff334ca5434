/**
 * Which replica holds which prompt prefix: chained hashes of 64-token blocks, started from the tenant's salt, each with the set of
 * replicas that hold it. Bounded by least recent use.
 *
 * Pure bookkeeping; the cost that is made of it is in choose-replica.ts. SHA-256 cut to 64 bits: strong enough that one tenant cannot
 * craft a prompt whose chain meets another's.
 */
import { hash } from "node:crypto";

export const BLOCK_TOKENS = 64;
const HASH_BYTES = 32;
const BLOCK_BYTES = BLOCK_TOKENS * Int32Array.BYTES_PER_ELEMENT;
export const MAX_BLOCKS = 262_144;
/**
 * Share of the bound that goes at once when it is passed. An iterator steps over the holes of all deleted keys first (measured: 0.1 ms at
 * the default bound), so one must serve many; one that is kept for ever would keep every table that the map has outgrown.
 */
const EVICTED_SHARE = 1 / 16;

/** A parent's hash and a block, put together for the next hash; used within a single call only. */
const hashInput = Buffer.alloc(HASH_BYTES + BLOCK_BYTES);

/**
 * The chained block hashes of one sequence, each made when it is first looked at and then kept: who compares no further than the first
 * block that differs pays no further, and a prompt that its answer makes longer is not hashed again.
 */
export class PrefixChain implements Iterable<bigint> {
  readonly #blocks: bigint[] = [];
  #bytes: Buffer;
  /** Hash of all before the next block; of the salt before the first. */
  #parent: Buffer | undefined;
  readonly #salt: string;

  constructor(salt: string, tokens: readonly number[] | Int32Array) {
    this.#salt = salt;
    this.#bytes = bytesOf(tokens);
  }

  /** The sequence is longer now; `tokens` begins with what it was. */
  extend(tokens: Int32Array): void {
    this.#bytes = bytesOf(tokens);
  }

  *[Symbol.iterator](): Generator<bigint, void, void> {
    const blocks = Math.floor(this.#bytes.length / BLOCK_BYTES);
    for (let at = 0; at < blocks; at++) yield this.#blocks[at] ?? this.#next();
  }

  #next(): bigint {
    const start = this.#blocks.length * BLOCK_BYTES;
    hashInput.set(this.#parent ?? sha256(this.#salt));
    hashInput.set(this.#bytes.subarray(start, start + BLOCK_BYTES), HASH_BYTES);
    this.#parent = sha256(hashInput);
    const block = this.#parent.readBigUInt64LE(0);
    this.#blocks.push(block);
    return block;
  }
}

/** In one call: a hash object a block would outlive its turn until the second collection after it. */
const sha256 = (data: string | Buffer): Buffer => hash("sha256", data, "buffer");

const bytesOf = (tokens: readonly number[] | Int32Array): Buffer => {
  const ids = tokens instanceof Int32Array ? tokens : Int32Array.from(tokens);
  return Buffer.from(ids.buffer, ids.byteOffset, ids.byteLength);
};

/** All block hashes of a prompt; a last, incomplete block has none. */
export const prefixBlocks = (salt: string, tokens: readonly number[] | Int32Array): readonly bigint[] => [
  ...new PrefixChain(salt, tokens),
];

export class PrefixIndex {
  readonly #maxBlocks: number;
  /** Insertion order is the order of use: the first key is the least recently used. */
  readonly #holders = new Map<bigint, Set<number>>();
  constructor(maxBlocks: number = MAX_BLOCKS) {
    this.#maxBlocks = maxBlocks;
  }

  get size(): number {
    return this.#holders.size;
  }

  /** The replica holds these blocks from now on. */
  note(replica: number, blocks: Iterable<bigint>): void {
    for (const block of blocks) {
      const holders = this.#holders.get(block) ?? new Set();
      holders.add(replica);
      this.#holders.delete(block);
      this.#holders.set(block, holders);
    }
    if (this.#holders.size <= this.#maxBlocks) return;
    const kept = this.#maxBlocks - Math.floor(this.#maxBlocks * EVICTED_SHARE);
    for (const block of this.#holders.keys()) {
      if (this.#holders.size <= kept) break;
      this.#holders.delete(block);
    }
  }

  /** Tokens of the longest run of leading blocks that the replica holds. */
  heldTokens(replica: number, blocks: Iterable<bigint>): number {
    let held = 0;
    for (const block of blocks) {
      if (!this.#holders.get(block)?.has(replica)) break;
      held++;
    }
    return held * BLOCK_TOKENS;
  }

  /** The replica's cache is gone. */
  forget(replica: number): void {
    for (const [block, holders] of this.#holders) {
      holders.delete(replica);
      if (holders.size === 0) this.#holders.delete(block);
    }
  }
}
