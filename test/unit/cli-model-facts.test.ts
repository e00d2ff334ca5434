import type { KvType } from "@lockgate/native";
import test from "ava";
import { fitReplicas, needOfReplica, type ReplicaNeed } from "../../gpu-agent/src/cli/memory-fit.ts";
import { kvBytesPerToken, type ModelFacts, modelFacts } from "../../gpu-agent/src/cli/model-facts.ts";

const GIB = 1024 ** 3;
const template = { present: true, renders: true, problem: null };

const facts = (architecture: string, metadata: Record<string, string>): ModelFacts =>
  modelFacts({
    info: {
      description: "",
      architecture,
      // What the native module says of a model whose vocabulary alone was loaded.
      trainedContext: 0,
      layers: 0,
      vocabSize: 1_000,
      parameters: 8_030_261_248,
      sizeBytes: 4 * GIB,
      endTokens: [],
      bosText: null,
      eosText: null,
      specialTexts: [],
      chatTemplate: null,
      metadata,
    },
    template,
  });

const llama = {
  "general.name": "Some 8B",
  "general.file_type": "15",
  "llama.block_count": "32",
  "llama.context_length": "131072",
  "llama.embedding_length": "4096",
  "llama.attention.head_count": "32",
  "llama.attention.head_count_kv": "8",
};

test("a model with grouped heads: 32 layers × 8 KV heads × (128 + 128) numbers a token", (t) => {
  const known = facts("llama", llama);
  t.is(known.kvValuesPerToken, 65_536);
  t.false(known.kvIsUpperBound);
  t.is(known.quantisation, "Q4_K_M");
  t.is(known.trainedContext, 131_072);
  t.is(known.layers, 32);
  t.is(known.name, "Some 8B");
});

test("head lengths of their own beat the embedding's share", (t) => {
  const own = { ...llama, "llama.attention.key_length": "64", "llama.attention.value_length": "96" };
  t.is(facts("llama", own).kvValuesPerToken, 32 * 8 * 160);
});

// Counted by llama.cpp itself for 4 slots of 2048 tokens of the built-in model: 32 MiB in f16, 17 MiB in q8_0.
const kvTypes: ReadonlyArray<readonly [KvType, number]> = [
  ["f32", 64],
  ["f16", 32],
  ["bf16", 32],
  ["q8_0", 17],
  ["q4_0", 9],
];
for (const [kvType, mebibytes] of kvTypes) {
  test(`8192 tokens of the built-in model take ${mebibytes} MiB in ${kvType}`, (t) => {
    const perToken = kvBytesPerToken({ kvValuesPerToken: 4 * 4 * (64 + 64) }, kvType);
    t.is((perToken ?? 0) * 8_192, mebibytes * 1024 ** 2);
  });
}

test("what the metadata does not tell is null, not a guess", (t) => {
  t.is(facts("mamba", { "mamba.block_count": "64", "mamba.ssm.state_size": "16" }).kvValuesPerToken, null);
  t.is(facts("llama", { ...llama, "llama.ssm.state_size": "16" }).kvValuesPerToken, null);
  t.is(facts("llama", { ...llama, "llama.attention.kv_lora_rank": "512" }).kvValuesPerToken, null);
  const { "llama.attention.head_count": _, "llama.attention.head_count_kv": __, ...headless } = llama;
  t.is(facts("llama", headless).kvValuesPerToken, null);
  t.is(facts("llama", {}).trainedContext, null);
  t.is(facts("llama", {}).quantisation, "not named");
  t.is(facts("llama", { "general.file_type": "99" }).quantisation, "file type 99");
  t.is(kvBytesPerToken({ kvValuesPerToken: null }, "f16"), null);
});

test("a sliding window, or no count of KV heads, makes the figure an upper bound", (t) => {
  t.true(facts("llama", { ...llama, "llama.attention.sliding_window": "4096" }).kvIsUpperBound);
  const { "llama.attention.head_count_kv": _, ...ungrouped } = llama;
  t.true(facts("llama", ungrouped).kvIsUpperBound);
  t.is(facts("llama", ungrouped).kvValuesPerToken, 32 * 32 * 256);
});

test("the need of a replica takes the trained context and f16 where nothing is asked for", (t) => {
  const asked = { slots: 2, contextTokens: undefined, kvType: undefined };
  t.deepEqual(needOfReplica(facts("llama", llama), asked), {
    contextTokens: 131_072,
    weightBytes: 4 * GIB,
    kvBytesPerSlot: 16 * GIB,
    slots: 2,
  });
  const small = needOfReplica(facts("llama", llama), { slots: 1, contextTokens: 8_192, kvType: "q8_0" });
  t.is(small.kvBytesPerSlot, (GIB * 17) / 32);
  t.is(needOfReplica(facts("llama", {}), asked).kvBytesPerSlot, null);
});

const need: ReplicaNeed = { contextTokens: 1, weightBytes: 4 * GIB, kvBytesPerSlot: GIB, slots: 2 };
const onGpu = (free: number, of: ReplicaNeed = need) => fitReplicas(of, [["CUDA0"]], new Map([["CUDA0", free]]))[0];

test("6 GiB fit where more than a tenth stays free, are tight with less, and too large with less than 6", (t) => {
  t.is(onGpu(7 * GIB)?.verdict, "fits");
  t.is(onGpu(6 * GIB)?.verdict, "tight");
  t.is(onGpu(6 * GIB - 1)?.verdict, "too large");
  t.is(onGpu(7 * GIB)?.needBytes, 6 * GIB);
});

test("without a KV figure the verdict is unknown, unless the weights alone are too large", (t) => {
  const blind = { ...need, kvBytesPerSlot: null };
  t.is(onGpu(7 * GIB, blind)?.verdict, "unknown");
  t.is(onGpu(3 * GIB, blind)?.verdict, "too large");
});

test("replicas on one device add up, replicas with several devices share theirs, and no device means the CPU", (t) => {
  const free = new Map([
    ["CPU", 100 * GIB],
    ["CUDA0", 10 * GIB],
    ["CUDA1", 20 * GIB],
  ]);
  const of = (placements: ReadonlyArray<readonly string[] | undefined>) =>
    fitReplicas(need, placements, free).map(({ devices, replicas, needBytes, freeBytes, verdict }) => [
      devices.join("+"),
      replicas,
      needBytes / GIB,
      freeBytes / GIB,
      verdict,
    ]);
  t.deepEqual(of([["CUDA0"], ["CUDA1"], ["CUDA0"]]), [
    ["CUDA0", 2, 12, 10, "too large"],
    ["CUDA1", 1, 6, 20, "fits"],
  ]);
  t.deepEqual(of([["CUDA0", "CUDA1"]]), [["CUDA0+CUDA1", 1, 6, 30, "fits"]]);
  t.deepEqual(of([undefined, undefined]), [["CPU", 2, 12, 100, "fits"]]);
  t.deepEqual(of([["CUDA9"]]), [["CUDA9", 1, 6, 0, "too large"]]);
});
