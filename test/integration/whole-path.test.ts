/** Edge, agent and decoder together: byte for byte, through the vendors' SDK, with a client that does not read, and at the end. */
import { once } from "node:events";
import { connect } from "node:net";
import test from "ava";
import OpenAI from "openai";
import { type AgentUnderTest, atRest, startAgentUnderTest } from "../helpers/agent-process.ts";
import { type EdgeBeforeAgent, startEdgeBefore } from "../helpers/edge-before-agent.ts";
import { expectedAnswer, expectedAnswers } from "../helpers/expected-answers.ts";
import { bodiesOf, startRecordingProxy } from "../helpers/recording-proxy.ts";

let agent: AgentUnderTest;
let edge: EdgeBeforeAgent;
test.before(async () => {
  agent = await startAgentUnderTest(["--replicas", "2", "--slots", "2", "--write-stall-timeout", "2"]);
  edge = await startEdgeBefore(agent);
});
test.after.always(async () => {
  await edge?.stop();
  await agent?.stop();
});

test.serial("the body that the client reads is, byte for byte, the body that the agent wrote", async (t) => {
  const proxy = await startRecordingProxy(agent.url);
  const recorded = await startEdgeBefore(agent, proxy.url);
  try {
    const asked = expectedAnswers.filter((_, at) => at % 4 === 0);
    const got: Buffer[] = [];
    for (const { messages, max_tokens } of asked) {
      for (const stream of [true, false]) {
        const response = await recorded.chat({ model: "default", messages, max_tokens, stream });
        t.is(response.status, 200);
        got.push(Buffer.from(await response.arrayBuffer()));
      }
    }
    const wrote = proxy.received().flatMap(bodiesOf);
    t.is(wrote.length, got.length);
    const key = (bytes: Buffer) => bytes.toString("latin1");
    t.deepEqual(got.map(key).toSorted(), wrote.map(key).toSorted());
    t.log(`${got.length} bodies, ${got.reduce((sum, { length }) => sum + length, 0)} bytes, all identical`);
  } finally {
    await recorded.stop();
    proxy.stop();
  }
});

test.serial("the OpenAI SDK, unchanged, reads plain answers, streams and errors", async (t) => {
  const client = new OpenAI({ apiKey: edge.key, baseURL: `${edge.url}/v1`, maxRetries: 0 });
  const { messages, expected, expected_tokens } = expectedAnswer("fact-001");
  const ask = { model: "default", messages: messages as { role: "user"; content: string }[] };
  const plain = await client.chat.completions.create(ask);
  t.is(plain.choices[0]?.message.content, expected);
  t.is(plain.usage?.completion_tokens, expected_tokens);
  const stream = await client.chat.completions.create({
    ...ask,
    stream: true,
    stream_options: { include_usage: true },
  });
  let text = "";
  let counted = 0;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta.content ?? "";
    counted = chunk.usage?.completion_tokens ?? counted;
  }
  t.is(text, expected);
  t.is(counted, expected_tokens);
  const models = await client.models.list();
  t.is(models.data[0]?.id, "tiny-atlas-3m-q8_0");
  await t.throwsAsync(client.chat.completions.create({ ...ask, model: "gpt-9" }), { instanceOf: OpenAI.NotFoundError });
  const stranger = new OpenAI({ apiKey: "wrong", baseURL: `${edge.url}/v1`, maxRetries: 0 });
  await t.throwsAsync(stranger.models.list(), { instanceOf: OpenAI.AuthenticationError });
});

test.serial(
  "field report 7: a client that is connected but does not read: its slot is free within the write-stall limit",
  async (t) => {
    // Straight at the agent, and asking so often on one connection's worth of buffers that the kernel takes no more.
    const { hostname, port } = new URL(agent.url);
    const body = JSON.stringify({
      model: "default",
      stream: true,
      messages: [{ role: "user", content: "Say hello." }],
      logit_bias: { 1021: -100, 1023: -100 },
      max_tokens: 2000,
    });
    const stalled = connect({ host: hostname, port: Number(port) });
    await once(stalled, "connect");
    stalled.pause();
    stalled.on("error", () => {});
    const request = `POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${agent.localKey}\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
    // Pipelined: each answer is some 500 kB; the socket's buffers hold a few MB.
    stalled.write(request.repeat(20));
    await agent.until(({ inflight }) => inflight > 0, "a turn of the client that does not read");
    await agent.until(atRest, "the slot of the client that does not read");
    // Not because the answers all fitted into buffers: the limit cut one off.
    t.regex(agent.stderrSoFar(), /"turn_ended"[^\n]*"outcome":"aborted"/);
    t.is((await fetch(`${agent.url}/readyz`)).status, 200);
    stalled.destroy();
    const { expected, messages } = expectedAnswer("fact-001");
    const answer = (await (await edge.chat({ model: "default", messages })).json()) as {
      choices: [{ message: { content: string } }];
    };
    t.is(answer.choices[0].message.content, expected);
  },
);

test.serial("64 callers at once on 4 slots: all are answered, exact", async (t) => {
  const items = Array.from({ length: 64 }, (_, at) => expectedAnswers[at] ?? expectedAnswer("fact-001"));
  const answers = await Promise.all(
    items.map(async ({ messages, max_tokens }) => {
      const response = await edge.chat({ model: "default", messages, max_tokens });
      return ((await response.json()) as { choices: [{ message: { content: string } }] }).choices[0].message.content;
    }),
  );
  t.deepEqual(
    answers,
    items.map(({ expected }) => expected),
  );
  await agent.until(atRest, "rest");
});

test.serial("field report 29: SIGTERM mid-stream: the stream finishes, new requests are refused, exit 0", async (t) => {
  const own = await startAgentUnderTest(["--replicas", "1"]);
  const { messages, expected } = expectedAnswer("count-163");
  const response = await own.chat({ model: "default", messages, stream: true });
  own.child.kill("SIGTERM");
  const text = await response.text();
  t.true(text.endsWith("data: [DONE]\n\n"));
  const content = text
    .split("\n\n")
    .filter((event) => event.startsWith("data: {"))
    .map((event) => JSON.parse(event.slice(6)).choices[0].delta.content ?? "")
    .join("");
  t.is(content, expected);
  await t.throwsAsync(own.chat({ model: "default", messages }));
  t.is(await own.exited, 0);
});
