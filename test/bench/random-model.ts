/**
 * A model of any size with random weights, for figures at a realistic pace: llama architecture, Q8_0, with the built-in model's tokenizer,
 * template and context. Its answers are noise; what a token costs is real.
 *
 * Weights are drawn tensor by tensor from one seed, so the same seed gives the same file, and no more than one piece is in memory.
 */
import { closeSync, openSync, readFileSync, writeSync } from "node:fs";
import { type GgufLayout, readLayout } from "../helpers/gguf.ts";
import { padding, tensorInfo, text, u32, u64 } from "../helpers/gguf-parts.ts";

/** What fixes the size of a llama model, beside its vocabulary. */
export interface ModelShape {
  readonly layers: number;
  readonly width: number;
  readonly feedForward: number;
}

const HEAD_WIDTH = 64;
/** Of known models: feed-forward about 8/3 of the width, and a layer for each 56 or so of it. */
const FEED_FORWARD_RATIO = 8 / 3;
const WIDTH_PER_LAYER = 56;
/** Widths and feed-forward widths are whole numbers of this: heads of 64, Q8_0 blocks of 32. */
const WIDTH_STEP = 128;
const MAX_WIDTH = 16_384;

const feedForwardOf = (width: number): number => Math.round((width * FEED_FORWARD_RATIO) / WIDTH_STEP) * WIDTH_STEP;

/** Parameters of a model of this shape: tied embeddings, four square attention matrices, three of feed-forward, norms. */
export const parametersOf = ({ layers, width, feedForward }: ModelShape, vocabSize: number): number =>
  vocabSize * width + layers * (4 * width * width + 3 * width * feedForward + 2 * width) + width;

/** The shape of usual proportions whose parameters come nearest to those asked for. Throws where no such shape has so few or so many. */
export const shapeFor = (parameters: number, vocabSize: number): ModelShape => {
  let best: ModelShape | undefined;
  const missBy = (shape: ModelShape) => Math.abs(parametersOf(shape, vocabSize) - parameters);
  for (let width = WIDTH_STEP; width <= MAX_WIDTH; width += WIDTH_STEP) {
    const usual = Math.max(1, Math.round(width / WIDTH_PER_LAYER));
    // A few layers more or less are still a usual shape.
    for (const layers of [-2, -1, 0, 1, 2].map((more) => usual + more).filter((count) => count > 0)) {
      const shape = { layers, width, feedForward: feedForwardOf(width) };
      if (best === undefined || missBy(shape) < missBy(best)) best = shape;
    }
  }
  if (best === undefined || missBy(best) > 0.2 * parameters)
    throw new Error(`no usual shape has ${parameters} parameters`);
  return best;
};

const F32 = 0;
const Q8_0 = 8;
/** A Q8_0 block: a scale of 2 bytes, then 32 numbers of one byte. */
const BLOCK_NUMBERS = 32;
const BLOCK_BYTES = 2 + BLOCK_NUMBERS;

interface Tensor {
  readonly name: string;
  /** Numbers in a row, rows; one dimension for a norm. */
  readonly dimensions: readonly number[];
}

const isNorm = ({ dimensions }: Tensor): boolean => dimensions.length === 1;

const elementsOf = ({ dimensions }: Tensor): number =>
  dimensions.reduce((product, dimension) => product * dimension, 1);

const bytesOf = (tensor: Tensor): number =>
  isNorm(tensor) ? elementsOf(tensor) * 4 : (elementsOf(tensor) / BLOCK_NUMBERS) * BLOCK_BYTES;

const tensorsOf = ({ layers, width, feedForward }: ModelShape, vocabSize: number): Tensor[] => [
  { name: "token_embd.weight", dimensions: [width, vocabSize] },
  ...Array.from({ length: layers }, (_, layer) =>
    [
      { name: "attn_norm", dimensions: [width] },
      { name: "attn_q", dimensions: [width, width] },
      { name: "attn_k", dimensions: [width, width] },
      { name: "attn_v", dimensions: [width, width] },
      { name: "attn_output", dimensions: [width, width] },
      { name: "ffn_norm", dimensions: [width] },
      { name: "ffn_gate", dimensions: [width, feedForward] },
      { name: "ffn_up", dimensions: [width, feedForward] },
      { name: "ffn_down", dimensions: [feedForward, width] },
    ].map(({ name, dimensions }) => ({ name: `blk.${layer}.${name}.weight`, dimensions })),
  ).flat(),
  { name: "output_norm.weight", dimensions: [width] },
];

/** The metadata pairs of the source with the shape's numbers in them, and a name of its own. */
const pairsFor = (source: Buffer, layout: GgufLayout, shape: ModelShape, name: string): Buffer[] => {
  const numbers = new Map([
    ["llama.block_count", shape.layers],
    ["llama.embedding_length", shape.width],
    ["llama.feed_forward_length", shape.feedForward],
    ["llama.attention.head_count", shape.width / HEAD_WIDTH],
    ["llama.attention.head_count_kv", shape.width / HEAD_WIDTH],
    ["llama.attention.key_length", HEAD_WIDTH],
    ["llama.attention.value_length", HEAD_WIDTH],
    ["llama.rope.dimension_count", HEAD_WIDTH],
  ]);
  const keys = [...layout.valueAt.keys()];
  // A pair is its key, the type of its value, the value.
  const startOf = (key: string) => (layout.valueAt.get(key) ?? Number.NaN) - 4 - Buffer.byteLength(key) - 8;
  return keys.map((key, at) => {
    const next = keys[at + 1];
    const [start, end] = [startOf(key), next === undefined ? layout.tensorInfosAt : startOf(next)];
    const valueAt = layout.valueAt.get(key) ?? Number.NaN;
    const number = numbers.get(key);
    if (number !== undefined) return Buffer.concat([source.subarray(start, valueAt), u32(number)]);
    if (key === "general.name") return Buffer.concat([source.subarray(start, valueAt), text(name)]);
    return source.subarray(start, end);
  });
};

/** The scale of a matrix's blocks: numbers from -64 to 63 times this keep the size of what goes through `inputs` of them. */
const blockScale = (inputs: number): Uint8Array => {
  const deviation = 128 / Math.sqrt(12);
  return new Uint8Array(new Float16Array([1 / (deviation * Math.sqrt(inputs))]).buffer);
};

/** Random words from a seed that is not 0 (Marsaglia's xorshift32). */
const randomWords = (seed: number): ((into: Uint32Array) => void) => {
  let state = seed >>> 0 || 1;
  return (into) => {
    for (let at = 0; at < into.length; at++) {
      state ^= state << 13;
      state ^= state >>> 17;
      state ^= state << 5;
      into[at] = state;
    }
  };
};

/** Blocks written at once. */
const PIECE_BLOCKS = 32_768;

const writeMatrix = (file: number, tensor: Tensor, draw: (into: Uint32Array) => void): void => {
  const scale = blockScale(tensor.dimensions[0] ?? 1);
  const blocks = elementsOf(tensor) / BLOCK_NUMBERS;
  for (let done = 0; done < blocks; done += PIECE_BLOCKS) {
    const count = Math.min(PIECE_BLOCKS, blocks - done);
    const words = new Uint32Array((count * BLOCK_NUMBERS) / 4);
    draw(words);
    // Each byte to a number of seven bits with its sign.
    for (let at = 0; at < words.length; at++) {
      const word = words[at] ?? 0;
      words[at] = (word & 0x7f7f7f7f) | ((word & 0x40404040) << 1);
    }
    const numbers = new Uint8Array(words.buffer);
    const bytes = new Uint8Array(count * BLOCK_BYTES);
    for (let block = 0; block < count; block++) {
      bytes.set(scale, block * BLOCK_BYTES);
      bytes.set(numbers.subarray(block * BLOCK_NUMBERS, (block + 1) * BLOCK_NUMBERS), block * BLOCK_BYTES + 2);
    }
    writeSync(file, bytes);
  }
};

/** Writes the model to `path` and returns what it came to. `sourcePath` gives tokenizer, template and context. */
export const writeRandomModel = (
  path: string,
  sourcePath: string,
  { parameters, seed }: { readonly parameters: number; readonly seed: number },
): { readonly shape: ModelShape; readonly parameters: number; readonly bytes: number } => {
  const source = readFileSync(sourcePath);
  const layout = readLayout(source);
  const vocabSize = source.readUInt32LE(layout.valueAt.get("llama.vocab_size") ?? Number.NaN);
  const shape = shapeFor(parameters, vocabSize);
  const tensors = tensorsOf(shape, vocabSize);
  const pairs = pairsFor(source, layout, shape, `Random weights, seed ${seed}`);

  const infos: Buffer[] = [];
  let offset = 0;
  for (const tensor of tensors) {
    infos.push(tensorInfo(tensor.name, tensor.dimensions, isNorm(tensor) ? F32 : Q8_0, offset));
    offset += bytesOf(tensor) + padding(bytesOf(tensor)).length;
  }
  const head = Buffer.concat([source.subarray(0, 8), u64(tensors.length), u64(layout.pairCount), ...pairs, ...infos]);

  const draw = randomWords(seed);
  const file = openSync(path, "w");
  try {
    writeSync(file, Buffer.concat([head, padding(head.length)]));
    for (const tensor of tensors) {
      if (isNorm(tensor)) writeSync(file, new Uint8Array(new Float32Array(elementsOf(tensor)).fill(1).buffer));
      else writeMatrix(file, tensor, draw);
      writeSync(file, padding(bytesOf(tensor)));
    }
  } finally {
    closeSync(file);
  }
  const headBytes = head.length + padding(head.length).length;
  return { shape, parameters: parametersOf(shape, vocabSize), bytes: headBytes + offset };
};
