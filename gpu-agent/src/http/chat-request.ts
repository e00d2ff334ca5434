/**
 * The schema of POST /v1/chat/completions: from the client's bytes to a request that a turn can run.
 *
 * One table lists every field of OpenAI's API and ours: honoured, accepted while its value changes nothing, or refused. A field
 * that is not in the table is refused too, so nothing that would change the answer is dropped in silence.
 * Deliberately absent: what depends on the model (whether the name is served, context length, which token ids exist).
 */
import { z } from "zod";
import type { ChatMessage } from "../prompt/chat-template.ts";
import type { EngineSampling } from "../replicas/wire.ts";
import { chatMessagesSchema } from "./chat-messages.ts";
import { addInvalid, honoured, neutral, parseBody, type RequestProblem, refused } from "./request-fields.ts";

export interface ChatRequest {
  readonly model: string;
  readonly messages: readonly ChatMessage[];
  readonly stream: boolean;
  /** Whether the stream carries a usage chunk. */
  readonly includeUsage: boolean;
  /** Undefined: as many as the context holds. */
  readonly maxTokens: number | undefined;
  /** Undefined stays undefined: without a temperature the engine is greedy (OpenAI's default would be 1). */
  readonly sampling: EngineSampling;
  readonly stops: readonly string[];
}

const MAX_MODEL_NAME_CHARS = 256;
const MAX_STOP_STRINGS = 16;
/** Beyond these a logit that is divided by the penalty is no finite number any more, or as good as none. */
const MIN_REPETITION_PENALTY = 0.01;
const MAX_REPETITION_PENALTY = 100;
/** The stop matcher holds back at most one stop string's length of text. */
const MAX_STOP_CHARS = 1_024;
const MAX_LOGIT_BIASES = 1_024;
const MAX_TOKENS_LIMIT = 2 ** 31 - 1;
const MAX_SEED = 2 ** 32 - 1;

const numberIn = (low: number, high: number) => {
  const error = `must be a number from ${low} to ${high}`;
  return z.number({ error }).min(low, { error }).max(high, { error });
};

const numberAbove0 = (high?: number) => {
  const error = high === undefined ? "must be a number above 0" : `must be a number above 0 and at most ${high}`;
  const number = z.number({ error }).gt(0, { error });
  return high === undefined ? number : number.max(high, { error });
};

const integerIn = (low: number, high: number) => {
  const error = `must be a whole number from ${low} to ${high}`;
  return z.number({ error }).int({ error }).min(low, { error }).max(high, { error });
};

const trueOrFalse = z.boolean({ error: "must be true or false" });

const modelNameError = `must be the name of a model, 1 to ${MAX_MODEL_NAME_CHARS} characters`;

const stopString = z
  .string({ error: "must be a string" })
  .min(1, { error: "must not be empty" })
  .max(MAX_STOP_CHARS, { error: `must have at most ${MAX_STOP_CHARS} characters` })
  // Half of a surrogate pair would cut a character of the answer in two.
  .refine((text) => text.isWellFormed(), { error: "must be well-formed Unicode" });

const stop = z.preprocess(
  (value) => (typeof value === "string" ? [value] : value),
  z
    .array(stopString, { error: "must be a string or a list of strings" })
    .max(MAX_STOP_STRINGS, { error: `must have at most ${MAX_STOP_STRINGS} strings` }),
);

const isPlainObject = (value: unknown): value is object =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** As a map first: a record would drop an own key `__proto__` without a word. */
const logitBias = z
  .preprocess(
    (value) => (isPlainObject(value) ? new Map(Object.entries(value)) : value),
    z.map(z.string(), numberIn(-100, 100), { error: "must be an object of token ids and biases" }),
  )
  .transform((biases, sink): [token: number, bias: number][] => {
    const pairs = [...biases];
    if (pairs.length > MAX_LOGIT_BIASES) addInvalid(sink, biases, `must have at most ${MAX_LOGIT_BIASES} token ids`);
    const badId = pairs.find(([id]) => !/^(0|[1-9]\d{0,9})$/.test(id))?.[0];
    if (badId !== undefined)
      addInvalid(sink, biases, "token ids must be whole numbers in decimal, such as 42", [badId]);
    return pairs.map(([id, bias]) => [Number(id), bias]);
  });

const streamOptions = z.strictObject(
  {
    include_usage: honoured(trueOrFalse),
    include_obfuscation: neutral(z.literal(false), "false"),
  },
  { error: (issue) => (issue.code === "unrecognized_keys" ? undefined : "must be an object") },
);

const text = z.string();

/** Every field, in the order of OpenAI's reference; ours come last. */
export const chatFields = {
  messages: chatMessagesSchema,
  model: z
    .string({ error: modelNameError })
    .min(1, { error: modelNameError })
    .max(MAX_MODEL_NAME_CHARS, { error: modelNameError }),
  audio: refused("audio is not supported"),
  frequency_penalty: honoured(numberIn(-2, 2)),
  function_call: neutral(z.enum(["none", "auto"]), '"none" or "auto"'),
  functions: neutral(z.array(z.unknown()).max(0), "an empty list"),
  logit_bias: honoured(logitBias),
  logprobs: neutral(z.literal(false), "false"),
  max_completion_tokens: honoured(integerIn(1, MAX_TOKENS_LIMIT)),
  max_tokens: honoured(integerIn(1, MAX_TOKENS_LIMIT)),
  metadata: neutral(z.record(text, text), "an object of strings"),
  modalities: neutral(z.tuple([z.literal("text")]), '["text"]'),
  moderation: refused("moderation is not supported"),
  n: neutral(z.literal(1), "1"),
  parallel_tool_calls: neutral(z.literal(true), "true"),
  prediction: refused("predicted outputs are not supported"),
  presence_penalty: honoured(numberIn(-2, 2)),
  prompt_cache_key: neutral(text, "a string"),
  prompt_cache_options: neutral(z.strictObject({ mode: z.literal("implicit").optional() }), '{"mode": "implicit"}'),
  // A longer retention is a promise that this server would not keep.
  prompt_cache_retention: neutral(z.literal("in_memory"), '"in_memory"'),
  reasoning_effort: neutral(z.literal("none"), '"none"'),
  response_format: neutral(z.strictObject({ type: z.literal("text") }), '{"type": "text"}'),
  safety_identifier: neutral(text, "a string"),
  seed: honoured(integerIn(0, MAX_SEED)),
  service_tier: neutral(z.enum(["auto", "default"]), '"auto" or "default"'),
  stop: honoured(stop),
  store: neutral(z.literal(false), "false"),
  stream: honoured(trueOrFalse),
  stream_options: honoured(streamOptions),
  temperature: honoured(numberIn(0, 2)),
  tool_choice: neutral(z.enum(["none", "auto"]), '"none" or "auto"'),
  tools: neutral(z.array(z.unknown()).max(0), "an empty list"),
  top_logprobs: neutral(z.literal(0), "0"),
  top_p: honoured(numberAbove0(1)),
  user: neutral(text, "a string"),
  verbosity: neutral(z.literal("medium"), '"medium"'),
  web_search_options: refused("web search is not supported"),
  // Ours, under the names that other servers of open models use.
  min_p: honoured(numberIn(0, 1)),
  repeat_penalty: honoured(numberIn(MIN_REPETITION_PENALTY, MAX_REPETITION_PENALTY)),
  repetition_penalty: honoured(numberIn(MIN_REPETITION_PENALTY, MAX_REPETITION_PENALTY)),
  top_k: honoured(integerIn(0, MAX_TOKENS_LIMIT)),
};

/** Two names of one thing: whichever is there. Both with different values were refused before. */
const bodySchema = z
  .strictObject(chatFields)
  .superRefine((body, sink) => {
    const clash = (one: number | undefined, other: number | undefined): boolean =>
      one !== undefined && other !== undefined && one !== other;
    if (clash(body.max_tokens, body.max_completion_tokens)) {
      addInvalid(sink, body, "differs from max_completion_tokens, which means the same; send one of them", [
        "max_tokens",
      ]);
    }
    if (clash(body.repeat_penalty, body.repetition_penalty)) {
      addInvalid(sink, body, "differs from repetition_penalty, which means the same; send one of them", [
        "repeat_penalty",
      ]);
    }
    if (body.stream_options !== undefined && body.stream !== true) {
      addInvalid(sink, body, 'is only allowed together with "stream": true', ["stream_options"]);
    }
  })
  .transform(
    (body): ChatRequest => ({
      model: body.model,
      messages: body.messages,
      stream: body.stream ?? false,
      includeUsage: body.stream_options?.include_usage ?? false,
      maxTokens: body.max_completion_tokens ?? body.max_tokens,
      sampling: {
        temperature: body.temperature,
        topP: body.top_p,
        topK: body.top_k,
        minP: body.min_p,
        penaltyRepeat: body.repetition_penalty ?? body.repeat_penalty,
        penaltyFreq: body.frequency_penalty,
        penaltyPresent: body.presence_penalty,
        seed: body.seed,
        logitBias: body.logit_bias,
      },
      stops: body.stop ?? [],
    }),
  );

/** Parses the body of a chat completion request; the first fault found is the one told. */
export const parseChatRequest = (
  bytes: Uint8Array,
): { readonly ok: true; readonly request: ChatRequest } | { readonly ok: false; readonly problem: RequestProblem } => {
  const parsed = parseBody(bytes, bodySchema);
  return parsed.ok ? { ok: true, request: parsed.value } : parsed;
};
