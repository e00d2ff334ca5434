/** What a client hears while nothing else is to be said: during a long prefill, and behind another turn. Through the real edge. */
import test from "ava";
import { createParser } from "eventsource-parser";
import OpenAI from "openai";
import { atRest } from "../helpers/agent-process.ts";
import { startSlowAgent } from "../helpers/slow-agent.ts";

// A long prompt takes several seconds: longer than two keep-alives are apart.
const { agent, edge, stop } = await startSlowAgent();
test.after.always(async (t) => {
  t.is(await stop(), 0);
});

/** A long prompt of its own: another number at the front, so that nothing of it is in the cache. */
const slow = (number: number) => ({
  model: "default",
  max_tokens: 2,
  messages: [{ role: "user" as const, content: `${number} ${"word ".repeat(900)}` }],
});

test.serial(
  "a stream says keep-alive before its first event, and a parser of events hears only the events",
  async (t) => {
    const text = await (await edge.chat({ ...slow(1), stream: true })).text();
    const firstEvent = text.indexOf("data: ");
    t.regex(text.slice(0, firstEvent), /^(: keep-alive\n\n)+$/);
    const events: string[] = [];
    createParser({ onEvent: ({ data }) => void events.push(data) }).feed(text);
    t.is(events.at(-1), "[DONE]");
    t.true(events.slice(0, -1).every((data) => JSON.parse(data).object === "chat.completion.chunk"));
    await agent.until(atRest, "rest");
  },
);

test.serial("a plain request is answered with leading spaces, and is valid JSON all the same", async (t) => {
  const response = await edge.chat(slow(2));
  t.is(response.status, 200);
  const text = await response.text();
  t.regex(text, /^ +\{/);
  t.is(JSON.parse(text).usage.completion_tokens, 2);
  await agent.until(atRest, "rest");
});

test.serial("field report 31: a turn that waits behind another hears keep-alives too", async (t) => {
  const first = edge.chat(slow(3));
  await agent.until(({ inflight }) => inflight === 1, "the first turn");
  const text = await (
    await edge.chat({ ...slow(4), messages: [{ role: "user", content: "Hello" }], stream: true })
  ).text();
  t.true(text.startsWith(": keep-alive\n\n"));
  t.true(text.endsWith("data: [DONE]\n\n"));
  t.is((await first).status, 200);
  await agent.until(atRest, "rest");
});

// The Anthropic SDK has its part once there is an endpoint for it.
test.serial("field report 18: the OpenAI SDK reads a stream with keep-alives in it", async (t) => {
  const client = new OpenAI({ apiKey: edge.key, baseURL: `${edge.url}/v1`, maxRetries: 0 });
  const stream = await client.chat.completions.create({
    ...slow(5),
    stream: true,
    stream_options: { include_usage: true },
  });
  let completionTokens = 0;
  for await (const chunk of stream) completionTokens = chunk.usage?.completion_tokens ?? completionTokens;
  t.is(completionTokens, 2);
});
