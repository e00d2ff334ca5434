/**
 * What a GGUF's metadata tells an operator: architecture, size, number format, context, what its KV cache takes. Pure; whether
 * the template works is told to it, since trying needs a template engine that most commands need not load.
 *
 * The KV figure is that of an ordinary attention cache: layers × KV heads × (key + value length). Where the metadata rules that out (a
 * recurrent state, a compressed latent cache, head counts that differ by layer) it is null rather than a guess; where layers look at a
 * window only, or the file does not say how many KV heads there are, it is an upper bound and says so.
 */
import type { KvType } from "@lockgate/native";
import type { InspectedModel } from "../models/inspect-model.ts";

export interface ModelFacts {
  readonly name: string | null;
  readonly architecture: string;
  readonly parameters: number;
  readonly weightBytes: number;
  readonly quantisation: string;
  /** Tokens, or null where the file does not say. */
  readonly trainedContext: number | null;
  readonly layers: number | null;
  readonly vocabularySize: number;
  /** Numbers that the KV cache keeps for one token, or null where the metadata does not tell. */
  readonly kvValuesPerToken: number | null;
  /** True where some layers may keep less than that. */
  readonly kvIsUpperBound: boolean;
  readonly template: InspectedModel["template"];
}

/** llama.cpp's numbers for `general.file_type` (enum llama_ftype of llama.h). */
const FILE_TYPES: Readonly<Record<string, string>> = {
  0: "F32",
  1: "F16",
  2: "Q4_0",
  3: "Q4_1",
  7: "Q8_0",
  8: "Q5_0",
  9: "Q5_1",
  10: "Q2_K",
  11: "Q3_K_S",
  12: "Q3_K_M",
  13: "Q3_K_L",
  14: "Q4_K_S",
  15: "Q4_K_M",
  16: "Q5_K_S",
  17: "Q5_K_M",
  18: "Q6_K",
  19: "IQ2_XXS",
  20: "IQ2_XS",
  21: "Q2_K_S",
  22: "IQ3_XS",
  23: "IQ3_XXS",
  24: "IQ1_S",
  25: "IQ4_NL",
  26: "IQ3_S",
  27: "IQ3_M",
  28: "IQ2_S",
  29: "IQ2_M",
  30: "IQ4_XS",
  31: "IQ1_M",
  32: "BF16",
  36: "TQ1_0",
  37: "TQ2_0",
  38: "MXFP4_MOE",
  39: "NVFP4",
  40: "Q1_0",
  41: "Q2_0",
};

/** Bytes that one number takes; the block formats keep 32 numbers with a 16-bit scale. */
const KV_BYTES_PER_VALUE: Readonly<Record<KvType, number>> = {
  f32: 4,
  f16: 2,
  bf16: 2,
  q8_0: 34 / 32,
  q4_0: 18 / 32,
};

/** The engine's own where none is configured. */
export const DEFAULT_KV_TYPE: KvType = "f16";

/** Bytes of KV cache for one token, or null where the model's metadata does not tell. */
export const kvBytesPerToken = (facts: Pick<ModelFacts, "kvValuesPerToken">, kvType: KvType): number | null =>
  facts.kvValuesPerToken === null ? null : facts.kvValuesPerToken * KV_BYTES_PER_VALUE[kvType];

export const modelFacts = ({ info, template }: InspectedModel): ModelFacts => {
  const { metadata, architecture } = info;
  const own = (key: string): string | undefined => metadata[`${architecture}.${key}`];
  const integer = (key: string): number | null => {
    const text = own(key);
    return text !== undefined && /^\d+$/.test(text) ? Number(text) : null;
  };

  const layers = integer("block_count");
  const heads = integer("attention.head_count");
  const embedding = integer("embedding_length");
  // The GGUF specification's defaults: as many KV heads as heads, and heads that share the embedding evenly.
  const ownKvHeads = integer("attention.head_count_kv");
  const kvHeads = ownKvHeads ?? heads;
  const evenLength = embedding !== null && heads !== null && heads > 0 ? embedding / heads : null;
  const keyLength = integer("attention.key_length") ?? evenLength;
  const valueLength = integer("attention.value_length") ?? evenLength;
  const ordinary = own("ssm.state_size") === undefined && own("attention.kv_lora_rank") === undefined;
  const known = ordinary && layers !== null && kvHeads !== null && keyLength !== null && valueLength !== null;

  const fileType = metadata["general.file_type"];
  return {
    name: metadata["general.name"] ?? null,
    architecture,
    parameters: info.parameters,
    weightBytes: info.sizeBytes,
    quantisation: fileType === undefined ? "not named" : (FILE_TYPES[fileType] ?? `file type ${fileType}`),
    trainedContext: integer("context_length"),
    layers,
    vocabularySize: info.vocabSize,
    kvValuesPerToken: known ? layers * kvHeads * (keyLength + valueLength) : null,
    // A list of counts by layer does not come through as text, so an absent one may be that.
    kvIsUpperBound: own("attention.sliding_window") !== undefined || ownKvHeads === null,
    template,
  };
};
