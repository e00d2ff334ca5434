/**
 * A slow model for tests of cancellation and queueing: the built-in one with its blocks repeated, so that a token takes as much longer.
 * Tokenizer and template are the same; the answers are not worth reading. Written once per process into a temporary folder.
 *
 * GGUF layout: ggml's docs/gguf.md (header, key-value pairs, tensor descriptions, aligned data).
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const ALIGNMENT = 32;
const STRING = 8;
const ARRAY = 9;
const UINT32 = 4;
/** Bytes of the scalar value types, by their number. */
const scalarBytes: Readonly<Record<number, number>> = {
  0: 1,
  1: 1,
  2: 2,
  3: 2,
  4: 4,
  5: 4,
  6: 4,
  7: 1,
  10: 8,
  11: 8,
  12: 8,
};

class Reader {
  at = 0;
  readonly bytes: Buffer;
  constructor(bytes: Buffer) {
    this.bytes = bytes;
  }
  u32(): number {
    this.at += 4;
    return this.bytes.readUInt32LE(this.at - 4);
  }
  u64(): number {
    this.at += 8;
    return Number(this.bytes.readBigUInt64LE(this.at - 8));
  }
  string(): string {
    const length = this.u64();
    this.at += length;
    return this.bytes.toString("utf8", this.at - length, this.at);
  }
  skipValue(type: number): void {
    if (type === STRING) this.string();
    else if (type === ARRAY) {
      const [of, count] = [this.u32(), this.u64()];
      for (let item = 0; item < count; item++) this.skipValue(of);
    } else this.at += scalarBytes[type] ?? Number.NaN;
  }
}

const u32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
};
const u64 = (value: number): Buffer => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
};
const text = (value: string): Buffer => Buffer.concat([u64(Buffer.byteLength(value)), Buffer.from(value)]);
const aligned = (size: number): number => Math.ceil(size / ALIGNMENT) * ALIGNMENT;

interface Tensor {
  readonly name: string;
  readonly dims: readonly number[];
  readonly type: number;
  readonly data: Buffer;
}

/** The model at `source` with its blocks `times` over, as the bytes of a new GGUF. */
export const repeatBlocks = (source: Buffer, times: number): Buffer => {
  const reader = new Reader(source);
  reader.at = 8; // magic and version
  const [tensorCount, pairCount] = [reader.u64(), reader.u64()];
  const pairsStart = reader.at;
  let blockCountAt = -1;
  for (let pair = 0; pair < pairCount; pair++) {
    const key = reader.string();
    const type = reader.u32();
    if (key.endsWith(".block_count") && type === UINT32) blockCountAt = reader.at;
    reader.skipValue(type);
  }
  const pairs = Buffer.from(source.subarray(pairsStart, reader.at));
  const blocks = pairs.readUInt32LE(blockCountAt - pairsStart);
  pairs.writeUInt32LE(blocks * times, blockCountAt - pairsStart);

  const infos = Array.from({ length: tensorCount }, () => {
    const name = reader.string();
    const dims = Array.from({ length: reader.u32() }, () => reader.u64());
    return { name, dims, type: reader.u32(), offset: reader.u64() };
  });
  const dataStart = aligned(reader.at);
  const byOffset = infos.toSorted((a, b) => a.offset - b.offset);
  const tensors: Tensor[] = byOffset.map((info, at) => ({
    ...info,
    data: source.subarray(dataStart + info.offset, dataStart + (byOffset[at + 1]?.offset ?? source.length - dataStart)),
  }));
  const repeated = tensors.flatMap((tensor): Tensor[] => {
    const block = /^blk\.(\d+)\./.exec(tensor.name)?.[1];
    if (block === undefined) return [tensor];
    return Array.from({ length: times }, (_, time) => ({
      ...tensor,
      name: tensor.name.replace(/^blk\.\d+/, `blk.${Number(block) + time * blocks}`),
    }));
  });

  const head: Buffer[] = [source.subarray(0, 8), u64(repeated.length), u64(pairCount), pairs];
  const data: Buffer[] = [];
  let offset = 0;
  for (const { name, dims, type, data: bytes } of repeated) {
    head.push(text(name), u32(dims.length), ...dims.map(u64), u32(type), u64(offset));
    const padding = aligned(bytes.length) - bytes.length;
    data.push(bytes, Buffer.alloc(padding));
    offset += bytes.length + padding;
  }
  const header = Buffer.concat(head);
  return Buffer.concat([header, Buffer.alloc(aligned(header.length) - header.length), ...data]);
};

/** Path of a model that is `times` as slow as the built-in one, and what removes it. */
export const makeDeepModel = (times: number): { readonly path: string; readonly remove: () => void } => {
  const directory = mkdtempSync(join(tmpdir(), "lockgate-deep-"));
  const path = join(directory, `deep-${times}.gguf`);
  const builtIn = new URL("../../gpu-agent/models/tiny-atlas-3m-q8_0.gguf", import.meta.url);
  writeFileSync(path, repeatBlocks(readFileSync(builtIn), times));
  return { path, remove: () => rmSync(directory, { recursive: true, force: true }) };
};
