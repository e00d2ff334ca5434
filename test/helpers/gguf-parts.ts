/** The pieces that a GGUF file is written from, as bytes (version 3; ggml's docs/gguf.md). Reading is gguf.ts's. */
import { DEFAULT_ALIGNMENT } from "./gguf.ts";

export const u32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
};

export const u64 = (value: number): Buffer => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
};

export const text = (value: string): Buffer => Buffer.concat([u64(Buffer.byteLength(value)), Buffer.from(value)]);

/** What stands between something of this size and the next aligned byte. */
export const padding = (size: number): Buffer =>
  Buffer.alloc((DEFAULT_ALIGNMENT - (size % DEFAULT_ALIGNMENT)) % DEFAULT_ALIGNMENT);

/** The description of one tensor. */
export const tensorInfo = (name: string, dimensions: readonly number[], type: number, offset: number): Buffer =>
  Buffer.concat([text(name), u32(dimensions.length), ...dimensions.map(u64), u32(type), u64(offset)]);
