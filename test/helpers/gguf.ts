/**
 * Just enough of the GGUF format (version 3; ggml's docs/gguf.md) to find where things lie in a file: metadata values, tensor descriptions,
 * tensor data. It decodes no tensor.
 */

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
const STRING = 8;
const ARRAY = 9;
export const DEFAULT_ALIGNMENT = 32;

export interface GgufTensor {
  readonly name: string;
  readonly dimensions: readonly number[];
  readonly elements: number;
  readonly type: number;
  /** Byte where its data begins in the file, and how many bytes there are up to the next tensor. */
  readonly at: number;
  readonly bytes: number;
}

export interface GgufLayout {
  /** Bytes where the metadata pairs and the tensor descriptions begin. */
  readonly pairsAt: number;
  readonly tensorInfosAt: number;
  readonly dataAt: number;
  readonly pairCount: number;
  /** Byte of each metadata value, by key. */
  readonly valueAt: ReadonlyMap<string, number>;
  /** In the order of their data. */
  readonly tensors: ReadonlyMap<string, GgufTensor>;
}

export const readLayout = (file: Buffer): GgufLayout => {
  let at = 4 + 4; // magic and version
  const u32 = (): number => {
    at += 4;
    return file.readUInt32LE(at - 4);
  };
  const u64 = (): number => {
    at += 8;
    return Number(file.readBigUInt64LE(at - 8));
  };
  const text = (): string => {
    const length = u64();
    at += length;
    return file.toString("utf8", at - length, at);
  };
  const skipValue = (type: number): void => {
    if (type === STRING) {
      text();
    } else if (type === ARRAY) {
      const itemType = u32();
      const count = u64();
      for (let item = 0; item < count; item++) skipValue(itemType);
    } else {
      at += scalarBytes[type] ?? Number.NaN;
    }
  };

  const tensorCount = u64();
  const pairCount = u64();
  const pairsAt = at;
  const valueAt = new Map<string, number>();
  for (let pair = 0; pair < pairCount; pair++) {
    const key = text();
    const type = u32();
    valueAt.set(key, at);
    skipValue(type);
  }
  const alignmentAt = valueAt.get("general.alignment");
  const alignment = alignmentAt === undefined ? DEFAULT_ALIGNMENT : file.readUInt32LE(alignmentAt);

  const tensorInfosAt = at;
  const infos = Array.from({ length: tensorCount }, () => {
    const name = text();
    const dimensions = Array.from({ length: u32() }, u64);
    return { name, dimensions, type: u32(), offset: u64() };
  }).toSorted((a, b) => a.offset - b.offset);
  const dataAt = Math.ceil(at / alignment) * alignment;
  const tensors = infos.map(({ name, dimensions, type, offset }, index): [string, GgufTensor] => {
    const end = infos[index + 1]?.offset ?? file.length - dataAt;
    const elements = dimensions.reduce((product, dimension) => product * dimension, 1);
    return [name, { name, dimensions, elements, type, at: dataAt + offset, bytes: end - offset }];
  });
  return { pairsAt, tensorInfosAt, dataAt, pairCount, valueAt, tensors: new Map(tensors) };
};
