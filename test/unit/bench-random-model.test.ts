import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import test from "ava";
import { parametersOf, shapeFor, writeRandomModel } from "../bench/random-model.ts";
import { readLayout } from "../helpers/gguf.ts";

const source = fileURLToPath(new URL("../../gpu-agent/models/tiny-atlas-3m-q8_0.gguf", import.meta.url));
const directory = mkdtempSync(join(tmpdir(), "lockgate-random-"));
test.after.always(() => rmSync(directory, { recursive: true, force: true }));

test("a shape comes near to the parameters that were asked for, in the proportions of known models", (t) => {
  for (const parameters of [3e6, 20e6, 125e6, 500e6, 1e9, 3e9, 7e9]) {
    const shape = shapeFor(parameters, 1_024);
    t.true(Math.abs(parametersOf(shape, 1_024) / parameters - 1) < 0.2, JSON.stringify(shape));
    t.is(shape.width % 128, 0);
    t.is(shape.feedForward % 32, 0);
  }
});

test("so few or so many parameters that no usual shape has them are refused", (t) => {
  t.throws(() => shapeFor(1_000, 1_024), { message: "no usual shape has 1000 parameters" });
  t.throws(() => shapeFor(1e15, 1_024));
});

const make = (name: string, seed: number): Buffer => {
  const path = join(directory, name);
  const made = writeRandomModel(path, source, { parameters: 3e6, seed });
  const file = readFileSync(path);
  if (file.length !== made.bytes) throw new Error(`${file.length} bytes were written, not ${made.bytes}`);
  return file;
};

const digest = (bytes: Buffer): string => createHash("sha256").update(bytes).digest("hex");

test("the same seed gives the same file, another seed another", (t) => {
  const first = digest(make("a.gguf", 1));
  t.is(digest(make("b.gguf", 1)), first);
  t.not(digest(make("c.gguf", 2)), first);
});

test("the file holds what its head says: every tensor as long as its numbers, and the source's tokenizer untouched", (t) => {
  const file = make("d.gguf", 1);
  const layout = readLayout(file);
  const original = readFileSync(source);
  const of = readLayout(original);
  t.deepEqual([...layout.valueAt.keys()], [...of.valueAt.keys()]);
  for (const { name, type, elements, bytes } of layout.tensors.values()) {
    const plain = type === 0 ? elements * 4 : (elements / 32) * 34;
    t.is(bytes, Math.ceil(plain / 32) * 32, name);
  }
  const tokenizer = (bytes: Buffer, { valueAt, tensorInfosAt }: ReturnType<typeof readLayout>) =>
    bytes.subarray(valueAt.get("tokenizer.ggml.model") ?? 0, tensorInfosAt);
  t.true(tokenizer(file, layout).equals(tokenizer(original, of)));
});

test("weights are spread about zero as widely as what goes through them asks for", (t) => {
  const file = make("e.gguf", 3);
  const tensor = readLayout(file).tensors.get("blk.0.ffn_down.weight");
  if (tensor === undefined) throw new Error("the tensor is missing");
  const inputs = tensor.dimensions[0] ?? 0;
  let sum = 0;
  let squares = 0;
  for (let block = 0; block < tensor.elements / 32; block++) {
    const at = tensor.at + block * 34;
    const [scale = 0] = new Float16Array(new Uint8Array(file.subarray(at, at + 2)).buffer);
    for (let number = 0; number < 32; number++) {
      const weight = file.readInt8(at + 2 + number) * scale;
      sum += weight;
      squares += weight * weight;
    }
  }
  const deviation = Math.sqrt(squares / tensor.elements);
  t.true(Math.abs(deviation * Math.sqrt(inputs) - 1) < 0.02, String(deviation));
  t.true(Math.abs(sum / tensor.elements) < deviation / 20, String(sum));
});
