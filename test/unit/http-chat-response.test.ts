import assert from "node:assert/strict";
import type { DoneStatistics } from "@lockgate/shared-types";
import test from "ava";
import fc from "fast-check";
import OpenAI from "openai";
import { completionBody, createChunkWriter } from "../../gpu-agent/src/http/chat-response.ts";
import {
  KEEP_ALIVE_COMMENT,
  KEEP_ALIVE_INTERVAL_MS,
  MAX_SILENCE_MS,
  sseHeaders,
} from "../../gpu-agent/src/http/sse.ts";

const identity = { id: "chatcmpl-1", model: "atlas", created: 1_800_000_000, systemFingerprint: "fp_1" };
const usage = { promptTokens: 21, completionTokens: 9, cachedTokens: 16 };
const statistics: DoneStatistics = Object.freeze({
  generated: 12,
  promptTokens: 21,
  promptMs: 1.5,
  decodeMs: 2.5,
  finish: "stop",
  draftsAccepted: 3,
  draftsOffered: 4,
  reused: 16,
  expertHits: 0,
  expertLookups: 0,
  ramBlobs: 0,
  fileBlobs: 0,
  fileMb: 0,
  promptRead: 5,
  offloaded: 0,
});
const timings = {
  prompt_n: 5,
  prompt_ms: 1.5,
  predicted_n: 12,
  predicted_ms: 2.5,
  cache_n: 16,
  draft_n: 4,
  draft_n_accepted: 3,
};
const head = {
  id: "chatcmpl-1",
  object: "chat.completion.chunk",
  created: 1_800_000_000,
  model: "atlas",
  system_fingerprint: "fp_1",
};

const writer = (includeUsage = false) => createChunkWriter({ ...identity, includeUsage });

const dataOf = (event: string): unknown => {
  const match = /^data: (.*)\n\n$/u.exec(event);
  if (match?.[1] === undefined) throw new Error(`not one event: ${event}`);
  return JSON.parse(match[1]);
};

const choice = (delta: object, finishReason: string | null) => [
  { index: 0, delta, logprobs: null, finish_reason: finishReason },
];

test("role, content and finish chunks have OpenAI's shape", (t) => {
  const chunks = writer();
  t.deepEqual(dataOf(chunks.role()), {
    ...head,
    choices: choice({ role: "assistant", content: "", refusal: null }, null),
  });
  t.deepEqual(dataOf(chunks.content("Hi")), { ...head, choices: choice({ content: "Hi" }, null) });
  t.deepEqual(dataOf(chunks.finish("stop", statistics)), { ...head, choices: choice({}, "stop"), timings });
  t.deepEqual(dataOf(chunks.finish("length", null)), {
    ...head,
    choices: choice({}, "length"),
    timings: null,
  });
  t.is(chunks.done(), "data: [DONE]\n\n");
});

test("with include_usage every chunk says usage null and the usage chunk has no choices", (t) => {
  const chunks = writer(true);
  t.deepEqual(dataOf(chunks.content("Hi")), { ...head, choices: choice({ content: "Hi" }, null), usage: null });
  t.deepEqual(dataOf(chunks.role()), {
    ...head,
    choices: choice({ role: "assistant", content: "", refusal: null }, null),
    usage: null,
  });
  t.deepEqual(dataOf(chunks.finish("stop", null)), {
    ...head,
    choices: choice({}, "stop"),
    usage: null,
    timings: null,
  });
  t.deepEqual(dataOf(chunks.usage(usage)), {
    ...head,
    choices: [],
    usage: { prompt_tokens: 21, completion_tokens: 9, total_tokens: 30, prompt_tokens_details: { cached_tokens: 16 } },
  });
});

test("property: any text, lone surrogates and line breaks included, is one event that gives the text back", (t) => {
  const text = fc.oneof(
    fc.string({ unit: "binary" }),
    fc.array(fc.integer({ min: 0, max: 0xffff })).map((units) => String.fromCharCode(...units)),
  );
  const model = fc.constantFrom("atlas", "{text}", '{text}"{text}"', 'm","choices":[{"delta":{"content":"{text}"');
  t.notThrows(() =>
    fc.assert(
      fc.property(text, model, (content, name) => {
        const event = createChunkWriter({ ...identity, model: name, includeUsage: false }).content(content);
        assert.deepEqual(dataOf(event), { ...head, model: name, choices: choice({ content }, null) });
        assert.ok(event.isWellFormed());
        assert.ok(!/[\r\n]/.test(event.slice(0, -2)));
      }),
    ),
  );
});

test("text is sent as it is, not escaped", (t) => {
  t.true(writer().content("é 🇵🇹 \u2028").includes('"content":"é 🇵🇹 \u2028"'));
});

test("an error event has the body of an error answer", (t) => {
  t.deepEqual(dataOf(writer().error("engine_error", "the replica failed")), {
    error: { message: "the replica failed", type: "server_error", param: null, code: "engine_error" },
  });
});

test("a plain answer has OpenAI's shape; without statistics its timings are null", (t) => {
  const body = { ...identity, text: "Hi", finishReason: "stop" as const, usage, statistics: null };
  const expected = {
    ...head,
    object: "chat.completion",
    choices: [
      { index: 0, message: { role: "assistant", content: "Hi", refusal: null }, logprobs: null, finish_reason: "stop" },
    ],
    usage: { prompt_tokens: 21, completion_tokens: 9, total_tokens: 30, prompt_tokens_details: { cached_tokens: 16 } },
  };
  t.deepEqual(JSON.parse(completionBody(body)), { ...expected, timings: null });
  t.deepEqual(JSON.parse(completionBody({ ...body, statistics })), { ...expected, timings });
});

const clientOf = (body: string) =>
  new OpenAI({
    apiKey: "unused",
    baseURL: "http://agent.invalid/v1",
    maxRetries: 0,
    fetch: async () => new Response(body, { headers: { ...sseHeaders } }),
  });

const ask = { model: "atlas", messages: [{ role: "user" as const, content: "hi" }], stream: true as const };

test("the OpenAI SDK reads a stream of ours, keep-alives included", async (t) => {
  const chunks = writer(true);
  const texts = ["🇵🇹", " a\nb", ' "q"'];
  const events = [
    KEEP_ALIVE_COMMENT,
    chunks.role(),
    KEEP_ALIVE_COMMENT,
    ...texts.map((text) => chunks.content(text)),
    chunks.finish("stop", statistics),
    chunks.usage(usage),
    chunks.done(),
  ];
  let text = "";
  const finishes: string[] = [];
  let total: number | undefined;
  for await (const chunk of await clientOf(events.join("")).chat.completions.create(ask)) {
    text += chunk.choices[0]?.delta.content ?? "";
    const finish = chunk.choices[0]?.finish_reason;
    if (finish !== undefined && finish !== null) finishes.push(finish);
    total = chunk.usage?.total_tokens ?? total;
  }
  t.is(text, texts.join(""));
  t.deepEqual(finishes, ["stop"]);
  t.is(total, 30);
});

test("the OpenAI SDK raises an error event of ours", async (t) => {
  const chunks = writer();
  const stream = await clientOf(
    chunks.role() + chunks.error("engine_error", "the replica failed"),
  ).chat.completions.create(ask);
  const error = await t.throwsAsync(async () => {
    for await (const chunk of stream) t.truthy(chunk.id);
  });
  t.regex(error.message, /the replica failed/);
});

test("keep-alives come before the longest silence is over", (t) => {
  t.true(KEEP_ALIVE_INTERVAL_MS < MAX_SILENCE_MS);
  t.is(KEEP_ALIVE_COMMENT, ": keep-alive\n\n");
});
