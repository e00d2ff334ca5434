import assert from "node:assert/strict";
import test from "ava";
import fc from "fast-check";
import type OpenAI from "openai";
import { MAX_CONTENT_PARTS, MAX_MESSAGES } from "../../gpu-agent/src/http/chat-messages.ts";
import { chatFields, parseChatRequest } from "../../gpu-agent/src/http/chat-request.ts";

type Fields = Readonly<Record<string, unknown>>;

const utf8 = new TextEncoder();
const minimal = { model: "atlas", messages: [{ role: "user", content: "hi" }] };
const parse = (changes: Fields) => parseChatRequest(utf8.encode(JSON.stringify({ ...minimal, ...changes })));

const accept = (changes: Fields) => {
  const parsed = parse(changes);
  if (!parsed.ok) throw new Error(parsed.problem.message);
  return parsed.request;
};

const refuse = (changes: Fields) => {
  const parsed = parse(changes);
  if (parsed.ok) throw new Error(`accepted ${JSON.stringify(changes)}`);
  return parsed.problem;
};

const noSampling = {
  temperature: undefined,
  topP: undefined,
  topK: undefined,
  minP: undefined,
  penaltyRepeat: undefined,
  penaltyFreq: undefined,
  penaltyPresent: undefined,
  seed: undefined,
  logitBias: undefined,
};

test("a minimal request is greedy, not streamed and without limits of its own", (t) => {
  t.deepEqual(accept({}), {
    model: "atlas",
    messages: [{ role: "user", content: "hi" }],
    stream: false,
    includeUsage: false,
    maxTokens: undefined,
    sampling: noSampling,
    stops: [],
  });
});

test("every sampling parameter reaches the engine under the engine's name", (t) => {
  const request = accept({
    temperature: 0.5,
    top_p: 0.9,
    top_k: 40,
    min_p: 0.05,
    repetition_penalty: 1.1,
    frequency_penalty: -2,
    presence_penalty: 2,
    seed: 4_294_967_295,
    logit_bias: { "0": -100, "1023": 100 },
  });
  t.deepEqual(request.sampling, {
    temperature: 0.5,
    topP: 0.9,
    topK: 40,
    minP: 0.05,
    penaltyRepeat: 1.1,
    penaltyFreq: -2,
    penaltyPresent: 2,
    seed: 4_294_967_295,
    logitBias: [
      [0, -100],
      [1023, 100],
    ],
  });
  t.is(accept({ repeat_penalty: 1.2 }).sampling.penaltyRepeat, 1.2);
  t.is(accept({ temperature: 0 }).sampling.temperature, 0);
});

test("stream, usage, limits and stop strings are honoured", (t) => {
  t.true(accept({ stream: true }).stream);
  t.false(accept({ stream: true }).includeUsage);
  t.true(accept({ stream: true, stream_options: { include_usage: true } }).includeUsage);
  t.false(accept({ stream: true, stream_options: { include_usage: false } }).includeUsage);
  t.is(accept({ max_tokens: 5 }).maxTokens, 5);
  t.is(accept({ max_completion_tokens: 6 }).maxTokens, 6);
  t.is(accept({ max_tokens: 7, max_completion_tokens: 7 }).maxTokens, 7);
  t.deepEqual(accept({ stop: "END" }).stops, ["END"]);
  t.deepEqual(accept({ stop: ["a", "b"] }).stops, ["a", "b"]);
});

test("developer speaks as system, and text parts are joined", (t) => {
  const content = [
    { type: "text", text: "one " },
    { type: "text", text: "two" },
  ];
  const { messages } = accept({
    messages: [
      { role: "developer", content: "be brief" },
      { role: "user", content },
    ],
  });
  t.deepEqual(messages, [
    { role: "system", content: "be brief" },
    { role: "user", content: "one two" },
  ]);
});

test("an answer can be sent back as it came", (t) => {
  const answer = {
    role: "assistant",
    content: "Hi.",
    refusal: null,
    annotations: [],
    audio: null,
    function_call: null,
    tool_calls: [],
  };
  t.deepEqual(accept({ messages: [...minimal.messages, answer, { role: "user", content: "" }] }).messages.at(1), {
    role: "assistant",
    content: "Hi.",
  });
});

test("the table knows every field that the OpenAI SDK can send", (t) => {
  type Known = keyof typeof chatFields;
  type Sendable = keyof OpenAI.Chat.Completions.ChatCompletionCreateParamsStreaming;
  // Does not compile when the SDK has a field that the table lacks.
  const everyFieldIsKnown: Exclude<Sendable, Known> extends never ? true : false = true;
  t.true(everyFieldIsKnown);
});

test("null means absent for every optional field", (t) => {
  const optional = Object.keys(chatFields).filter((name) => name !== "messages" && name !== "model");
  t.deepEqual(accept(Object.fromEntries(optional.map((name) => [name, null]))), accept({}));
});

const neutralValues: Fields = {
  function_call: "none",
  functions: [],
  logprobs: false,
  metadata: { run: "7" },
  modalities: ["text"],
  n: 1,
  parallel_tool_calls: true,
  prompt_cache_key: "k",
  prompt_cache_options: { mode: "implicit" },
  prompt_cache_retention: "in_memory",
  reasoning_effort: "none",
  response_format: { type: "text" },
  safety_identifier: "s",
  service_tier: "auto",
  store: false,
  tool_choice: "auto",
  tools: [],
  top_logprobs: 0,
  user: "u",
  verbosity: "medium",
};

test("neutral values and bookkeeping are accepted and change nothing", (t) => {
  t.deepEqual(accept(neutralValues), accept({}));
  t.deepEqual(
    accept({ service_tier: "default", tool_choice: "none", function_call: "auto", prompt_cache_options: {} }),
    accept({}),
  );
});

const unsupportedValues: ReadonlyArray<readonly [field: string, value: unknown]> = [
  ["audio", { format: "wav", voice: "alloy" }],
  ["function_call", { name: "f" }],
  ["functions", [{ name: "f" }]],
  ["logprobs", true],
  ["metadata", { run: 7 }],
  ["modalities", ["text", "audio"]],
  ["moderation", { model: "m" }],
  ["n", 2],
  ["parallel_tool_calls", false],
  ["prediction", { type: "content", content: "x" }],
  ["prompt_cache_key", 1],
  ["prompt_cache_options", { mode: "explicit" }],
  ["prompt_cache_options", { mode: "implicit", ttl: "30m" }],
  ["prompt_cache_retention", "24h"],
  ["reasoning_effort", "low"],
  ["response_format", { type: "json_object" }],
  ["safety_identifier", 1],
  ["service_tier", "flex"],
  ["store", true],
  ["tool_choice", "required"],
  ["tools", [{ type: "function", function: { name: "f" } }]],
  ["top_logprobs", 5],
  ["user", 5],
  ["verbosity", "low"],
  ["web_search_options", {}],
  ["best_of", 2],
  ["constructor", 1],
];

for (const [field, value] of unsupportedValues) {
  test(`${field}: ${JSON.stringify(value)} is refused by name`, (t) => {
    const problem = refuse({ [field]: value });
    t.is(problem.code, "unsupported_parameter");
    t.is(problem.param, field);
    t.true(problem.message.startsWith(`${field}: `));
  });
}

const longText = "x".repeat(1_025);
const invalidValues: ReadonlyArray<readonly [param: string, changes: Fields]> = [
  ["model", { model: undefined }],
  ["model", { model: null }],
  ["model", { model: "" }],
  ["model", { model: "x".repeat(257) }],
  ["messages", { messages: undefined }],
  ["messages", { messages: [] }],
  ["messages", { messages: "hi" }],
  ["messages", { messages: Array.from({ length: MAX_MESSAGES + 1 }, () => minimal.messages[0]) }],
  ["messages[0]", { messages: ["hi"] }],
  ["messages[0].role", { messages: [{ content: "hi" }] }],
  ["messages[0].role", { messages: [{ role: "root", content: "hi" }] }],
  ["messages[1].content", { messages: [...minimal.messages, { role: "assistant", content: null }] }],
  ["messages[0].content", { messages: [{ role: "user" }] }],
  ["messages[0].content", { messages: [{ role: "user", content: [] }] }],
  [
    "messages[0].content",
    {
      messages: [
        { role: "user", content: Array.from({ length: MAX_CONTENT_PARTS + 1 }, () => ({ type: "text", text: "" })) },
      ],
    },
  ],
  ["messages[0].content[0]", { messages: [{ role: "user", content: ["hi"] }] }],
  ["messages[0].content[0].text", { messages: [{ role: "user", content: [{ type: "text" }] }] }],
  ["temperature", { temperature: 2.1 }],
  ["temperature", { temperature: -0.1 }],
  ["temperature", { temperature: "1" }],
  ["top_p", { top_p: 0 }],
  ["top_p", { top_p: 1.1 }],
  ["top_k", { top_k: -1 }],
  ["top_k", { top_k: 1.5 }],
  ["min_p", { min_p: 1.1 }],
  ["presence_penalty", { presence_penalty: 2.1 }],
  ["frequency_penalty", { frequency_penalty: -2.1 }],
  ["repetition_penalty", { repetition_penalty: 0 }],
  ["repeat_penalty", { repeat_penalty: 1.1, repetition_penalty: 1.2 }],
  ["seed", { seed: -1 }],
  ["seed", { seed: 4_294_967_296 }],
  ["max_tokens", { max_tokens: 0 }],
  ["max_tokens", { max_tokens: 5, max_completion_tokens: 6 }],
  ["max_completion_tokens", { max_completion_tokens: 1.5 }],
  ["stream", { stream: "true" }],
  ["stream_options", { stream_options: { include_usage: true } }],
  ["stream_options", { stream: false, stream_options: {} }],
  ["stream_options", { stream: true, stream_options: "usage" }],
  ["stream_options.include_usage", { stream: true, stream_options: { include_usage: 1 } }],
  ["stop", { stop: 5 }],
  ["stop", { stop: Array.from({ length: 17 }, (_, index) => String(index)) }],
  ["stop[0]", { stop: "" }],
  ["stop[1]", { stop: ["a", longText] }],
  ["stop[0]", { stop: ["\ud83d"] }],
  ["logit_bias", { logit_bias: [1] }],
  ["logit_bias", { logit_bias: Object.fromEntries(Array.from({ length: 1_025 }, (_, index) => [index, 1])) }],
  ["logit_bias.x", { logit_bias: { x: 1 } }],
  ["logit_bias.01", { logit_bias: { "01": 1 } }],
  ["logit_bias.5", { logit_bias: { 5: 101 } }],
];

for (const [param, changes] of invalidValues) {
  test(`${JSON.stringify(changes).slice(0, 80)} is an invalid value of ${param}`, (t) => {
    const problem = refuse(changes);
    t.is(problem.code, "invalid_value");
    t.is(problem.param, param);
    t.regex(problem.message, /must|differs|only allowed/);
  });
}

const unsupportedMessageFields: ReadonlyArray<readonly [param: string, message: Fields]> = [
  ["messages[0].role", { role: "tool", content: "4", tool_call_id: "c1" }],
  ["messages[0].role", { role: "function", content: "4", name: "f" }],
  ["messages[0].name", { role: "user", content: "hi", name: "ann" }],
  ["messages[0].refusal", { role: "assistant", content: "", refusal: "no" }],
  ["messages[0].tool_calls", { role: "assistant", content: "", tool_calls: [{ id: "c1" }] }],
  ["messages[0].audio", { role: "assistant", content: "", audio: { id: "a" } }],
  ["messages[0].reasoning_content", { role: "assistant", content: "", reasoning_content: "hm" }],
  [
    "messages[0].content[1].type",
    {
      role: "user",
      content: [
        { type: "text", text: "see" },
        { type: "image_url", image_url: {} },
      ],
    },
  ],
  ["messages[0].content[0].type", { role: "assistant", content: [{ type: "refusal", refusal: "no" }] }],
  ["messages[0].content[0].detail", { role: "user", content: [{ type: "text", text: "x", detail: "low" }] }],
];

for (const [param, message] of unsupportedMessageFields) {
  test(`a message with ${JSON.stringify(message).slice(0, 80)} is refused at ${param}`, (t) => {
    const problem = refuse({ messages: [message] });
    t.is(problem.param, param);
    t.is(problem.code, "unsupported_parameter");
  });
}

test("an unknown stream option and asked-for obfuscation are refused by name", (t) => {
  t.is(refuse({ stream: true, stream_options: { color: "red" } }).param, "stream_options.color");
  t.is(
    refuse({ stream: true, stream_options: { include_obfuscation: true } }).param,
    "stream_options.include_obfuscation",
  );
  t.true(accept({ stream: true, stream_options: { include_obfuscation: false } }).stream);
});

test("bytes that are no JSON object in UTF-8 are refused as such", (t) => {
  const bodies = [
    new Uint8Array(),
    utf8.encode("{"),
    utf8.encode("[]"),
    utf8.encode("null"),
    utf8.encode('"x"'),
    Uint8Array.of(...utf8.encode('{"model":"'), 0xff, ...utf8.encode('"}')),
  ];
  for (const body of bodies) {
    const parsed = parseChatRequest(body);
    t.is(parsed.ok ? null : parsed.problem.code, "invalid_json");
    t.is(parsed.ok ? undefined : parsed.problem.param, null);
  }
});

test("of a key that comes twice the last one counts, as it does at the edge", (t) => {
  const parsed = parseChatRequest(utf8.encode('{"model":"a","messages":[{"role":"user","content":"hi"}],"model":"b"}'));
  t.is(parsed.ok ? parsed.request.model : null, "b");
});

test("numbers beyond the range of a double are refused", (t) => {
  const parsed = parseChatRequest(
    utf8.encode('{"model":"a","messages":[{"role":"user","content":"hi"}],"repetition_penalty":1e999}'),
  );
  t.is(parsed.ok ? null : parsed.problem.param, "repetition_penalty");
});

test("a body nested very deeply is refused, not a crash", (t) => {
  const depth = 100_000;
  const parsed = parseChatRequest(utf8.encode(`{"model":"a","messages":${"[".repeat(depth)}${"]".repeat(depth)}}`));
  t.is(parsed.ok ? null : parsed.problem.param, "messages[0]");
});

test("a huge unknown name is cut in the message", (t) => {
  t.true(refuse({ [longText]: 1 }).message.length < 400);
});

test("property: no JSON value of any field makes the parser throw, and what is accepted has text in every message", (t) => {
  const field = fc.constantFrom(...Object.keys(chatFields), "surprise");
  t.notThrows(() =>
    fc.assert(
      fc.property(fc.dictionary(field, fc.jsonValue(), { maxKeys: 3 }), (changes) => {
        const parsed = parse(changes);
        if (parsed.ok) assert.ok(parsed.request.messages.every(({ content }) => typeof content === "string"));
        else assert.ok(parsed.problem.message.length > 0);
      }),
      { numRuns: 1_000 },
    ),
  );
});
