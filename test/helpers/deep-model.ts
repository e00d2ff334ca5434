/**
 * A slow model for tests of cancellation and queueing: the built-in one with its blocks repeated, so that a token takes as much longer.
 * Tokenizer and template are the same; the answers are not worth reading. Written into a temporary folder of its own.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readLayout } from "./gguf.ts";
import { padding, tensorInfo, u64 } from "./gguf-parts.ts";

/** The model at `source` with its blocks `times` over, as the bytes of a new GGUF. */
export const repeatBlocks = (source: Buffer, times: number): Buffer => {
  const { pairsAt, tensorInfosAt, pairCount, valueAt, tensors } = readLayout(source);
  const pairs = Buffer.from(source.subarray(pairsAt, tensorInfosAt));
  const blockCountAt = (valueAt.get("llama.block_count") ?? Number.NaN) - pairsAt;
  const blocks = pairs.readUInt32LE(blockCountAt);
  pairs.writeUInt32LE(blocks * times, blockCountAt);

  const repeated = [...tensors.values()].flatMap((tensor) => {
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
  for (const { name, dimensions, type, at, bytes } of repeated) {
    head.push(tensorInfo(name, dimensions, type, offset));
    data.push(source.subarray(at, at + bytes), padding(bytes));
    offset += bytes + padding(bytes).length;
  }
  const header = Buffer.concat(head);
  return Buffer.concat([header, padding(header.length), ...data]);
};

/** Path of a model that is `times` as slow as the built-in one, and what removes it. */
export const makeDeepModel = (times: number): { readonly path: string; readonly remove: () => void } => {
  const directory = mkdtempSync(join(tmpdir(), "lockgate-deep-"));
  const path = join(directory, `deep-${times}.gguf`);
  const builtIn = new URL("../../gpu-agent/models/tiny-atlas-3m-q8_0.gguf", import.meta.url);
  writeFileSync(path, repeatBlocks(readFileSync(builtIn), times));
  return { path, remove: () => rmSync(directory, { recursive: true, force: true }) };
};
