/** Files that are no model, or a broken one: always an error with its code, never a crash. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { loadModel } from "@lockgate/native";
import test from "ava";
import { readLayout } from "../helpers/gguf.ts";
import { ask, Bench, codeOf, finished, MODEL_PATH, outcomeOf } from "./support.ts";

const directory = mkdtempSync(join(tmpdir(), "lockgate-gguf-"));
test.after.always(() => rmSync(directory, { recursive: true, force: true }));

let files = 0;
function write(bytes: Uint8Array): string {
  const path = join(directory, `${files++}.gguf`);
  writeFileSync(path, bytes);
  return path;
}

const model = readFileSync(MODEL_PATH);
const layout = readLayout(model);

test("a model cut anywhere is not a model", async (t) => {
  const cuts = new Set([0, 1, 3, 4, 7, 8, 15, 16, 23, 24, 25, 100]);
  for (let i = 1; i <= 60; i++) {
    cuts.add(Math.floor((layout.tensorInfosAt * i) / 60) - 1);
    cuts.add(layout.tensorInfosAt + Math.floor(((layout.dataAt - layout.tensorInfosAt) * i) / 61));
    cuts.add(layout.dataAt + Math.floor(((model.length - layout.dataAt) * i) / 61));
  }
  cuts.add(model.length - 1);
  for (const bytes of cuts) {
    const path = write(model.subarray(0, bytes));
    t.is(await outcomeOf(() => loadModel({ path })), "ERR_NOT_A_MODEL", `cut at ${bytes} of ${model.length}`);
    rmSync(path);
  }
  t.true(cuts.size > 150);
});

test("files of other kinds are not models, and llama.cpp's reason is in the message", async (t) => {
  const cases: [string, Uint8Array, RegExp][] = [
    ["nothing", new Uint8Array(0), /./],
    ["text", Buffer.from("This is a shopping list.\n".repeat(100)), /magic/],
    ["zeros", new Uint8Array(4096), /magic/],
    [
      "another architecture",
      Buffer.from(model).fill("xlama", model.indexOf("llama"), model.indexOf("llama") + 5),
      /xlama/,
    ],
  ];
  for (const [name, bytes, reason] of cases) {
    const path = write(bytes);
    const error = await t.throwsAsync(() => loadModel({ path }), { message: reason }, name);
    t.is(codeOf(error), "ERR_NOT_A_MODEL", name);
    t.true(error.message.includes(path), name);
  }
});

test("a missing file, a folder and an unknown device have codes of their own", async (t) => {
  t.is(await outcomeOf(() => loadModel({ path: join(directory, "none.gguf") })), "ERR_FILE_NOT_FOUND");
  t.is(await outcomeOf(() => loadModel({ path: directory })), "ERR_FILE_NOT_FOUND");
  const error = await t.throwsAsync(() => loadModel({ path: MODEL_PATH, devices: ["CUDA7"] }));
  t.is(codeOf(error), "ERR_UNKNOWN_DEVICE");
  t.regex(error.message, /CUDA7.*CPU/);
});

test("the CPU may be named as the device", async (t) => {
  const loaded = await loadModel({ path: MODEL_PATH, devices: ["CPU"] });
  t.is(loaded.info.vocabSize, 1024);
  await loaded.close();
});

test("an aborted load rejects with ERR_CANCELLED, before and during the load", async (t) => {
  t.is(await outcomeOf(() => loadModel({ path: MODEL_PATH, signal: AbortSignal.abort() })), "ERR_CANCELLED");
  const controller = new AbortController();
  const loading = loadModel({ path: MODEL_PATH, signal: controller.signal });
  controller.abort();
  t.is(await outcomeOf(() => loading), "ERR_CANCELLED");
});

test("progress goes up to 1", async (t) => {
  const fractions: number[] = [];
  const loaded = await loadModel({ path: MODEL_PATH, onProgress: (fraction) => fractions.push(fraction) });
  t.is(fractions.at(-1), 1);
  t.deepEqual(
    fractions,
    fractions.toSorted((a, b) => a - b),
  );
  await loaded.close();
});

test("a turn whose logits are not numbers finishes with nonfinite and its cache is not used again", async (t) => {
  const broken = Buffer.from(model);
  const norm = layout.tensors.get("output_norm.weight");
  t.is(norm?.type, 0, "output_norm is stored as 32-bit floats");
  for (let i = 0; i < (norm?.elements ?? 0); i++) {
    broken.writeFloatLE(Number.NaN, (norm?.at ?? 0) + 4 * i);
  }
  const loaded = await loadModel({ path: write(broken) });
  await using bench = new Bench(loaded);
  const prompt = await ask(loaded, "Say hello.");
  for (let i = 0; i < 2; i++) {
    const result = await bench.run({ slot: 0, prompt, maxTokens: 10, sampling: { temperature: i } });
    t.is(finished(result).finish, "nonfinite");
    t.is(finished(result).generated, 0);
    t.is(finished(result).reused, 0);
    t.deepEqual(result.tokens, []);
  }
});
