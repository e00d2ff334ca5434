/** Just enough of the GGUF format (version 3) to find where a tensor's data lies in a file. */

const TYPE_SIZES: Readonly<Record<number, number>> = {
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

export interface GgufLayout {
  /** Byte where the list of tensors begins (after the metadata). */
  readonly tensorInfosAt: number;
  /** Byte where the tensors' data begins. */
  readonly dataAt: number;
  readonly tensors: ReadonlyMap<string, { readonly at: number; readonly elements: number; readonly type: number }>;
}

export function readLayout(file: Buffer): GgufLayout {
  let at = 4 + 4;
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
      for (let i = 0; i < count; i++) {
        skipValue(itemType);
      }
    } else {
      at += TYPE_SIZES[type] ?? Number.NaN;
    }
  };
  const tensorCount = u64();
  const metadataCount = u64();
  let alignment = 32;
  for (let i = 0; i < metadataCount; i++) {
    const key = text();
    const type = u32();
    if (key === "general.alignment") {
      alignment = file.readUInt32LE(at);
    }
    skipValue(type);
  }
  const tensorInfosAt = at;
  const infos: { name: string; elements: number; type: number; offset: number }[] = [];
  for (let i = 0; i < tensorCount; i++) {
    const name = text();
    const dimensions = u32();
    let elements = 1;
    for (let d = 0; d < dimensions; d++) {
      elements *= u64();
    }
    infos.push({ name, elements, type: u32(), offset: u64() });
  }
  const dataAt = Math.ceil(at / alignment) * alignment;
  const tensors = new Map(
    infos.map(({ name, elements, type, offset }) => [name, { at: dataAt + offset, elements, type }]),
  );
  return { tensorInfosAt, dataAt, tensors };
}
