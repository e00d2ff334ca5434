/** What a real agent's log says and never says, and the way of a trace from a client through the real edge into it. */
import { randomBytes } from "node:crypto";
import test from "ava";
import { type AgentUnderTest, atRest, signedBy, startAgentUnderTest } from "../helpers/agent-process.ts";
import { startEdgeBefore } from "../helpers/edge-before-agent.ts";

/** Letters alone, so that no encoding hides it, and long enough to be in no other text. */
const canary = `canary${randomBytes(8).toString("hex").replaceAll(/\d/g, "q")}`;
const traceId = "0af7651916cd43dd8448eb211c80319c";
const parentId = "b7ad6b7169203331";
const traceparent = `00-${traceId}-${parentId}-01`;
const question = { model: "default", messages: [{ role: "user", content: `Say ${canary}.` }], max_tokens: 24 };

type Line = Readonly<Record<string, unknown>>;
const linesOf = (stderr: string): Line[] =>
  stderr
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Line);

/** The agent's log, whole: the agent is ended first. */
const endedLog = async (agent: AgentUnderTest): Promise<string> => {
  await agent.until(atRest, "rest");
  await agent.stop();
  return agent.stderr;
};

test("the log of a run with all kinds of requests holds no prompt, answer, key, secret or token id", async (t) => {
  const agent = await startAgentUnderTest(["--replicas", "2", "--log-level", "debug", "--heal-cooldown", "0.2"]);
  const authorization = `Bearer ${agent.localKey}`;
  const post = (body: string, headers: [string, string][] = [["authorization", authorization]], path = "") =>
    fetch(`${agent.url}/v1/chat/completions${path}`, {
      method: "POST",
      headers: [...headers, ["content-type", "application/json"]],
      body,
    });
  const body = JSON.stringify(question);

  const plain = (await (await agent.chat(question)).json()) as { choices: [{ message: { content: string } }] };
  const answer = plain.choices[0].message.content;
  await (await agent.chat({ ...question, stream: true })).text();
  await (await post(body, await signedBy(agent, body))).text();
  // Refused ones: not JSON, wrong types, unknown values, a model and a path that carry it, too long, too large.
  await post(`{"messages": ${canary}`);
  await agent.chat({ ...question, temperature: canary });
  await agent.chat({ ...question, [canary]: canary });
  await agent.chat({ ...question, stop: [canary, 5] });
  await agent.chat({ ...question, model: canary });
  await agent.chat({ ...question, messages: [{ role: canary, content: canary }] });
  await agent.chat({ ...question, messages: [{ role: "user", content: `${canary} `.repeat(3_000) }] });
  await post(canary.repeat(300_000));
  await post(body, [["authorization", authorization]], `?key=${canary}`);
  await fetch(`${agent.url}/v1/models/${canary}`, { headers: { authorization } });
  await fetch(`${agent.url}/${canary}?${canary}`, { headers: { authorization } });
  // Callers that are not let in: wrong keys, two credentials, a changed body, a forged signature.
  await post(body, [["authorization", `Bearer ${canary}`]]);
  await post(body, [["authorization", `Basic ${canary}`]]);
  await post(body, [["x-api-key", canary]]);
  await post(body.replace("Say", "Cry"), await signedBy(agent, body));
  await post(body, [...(await signedBy(agent, body)), ["authorization", authorization]]);
  await post(body, await signedBy({ ...agent, signing: { keyId: canary, secret: agent.signing.secret } }, body));
  // A client that leaves, and a replica that dies.
  const abort = new AbortController();
  const left = agent.chat({ ...question, stream: true, max_tokens: 1_000 }, { signal: abort.signal });
  await left;
  abort.abort();
  const { replicas } = await agent.status();
  process.kill(replicas[0]?.pid ?? 0, "SIGKILL");
  await agent.until(({ replicas: [first] }) => first?.heals === 1 && first.state === "ready", "a heal");

  const ids = agent.wire()[0]?.promptIds.join(",") ?? "";
  const log = await endedLog(agent);
  const events = new Set(linesOf(log).map(({ event }) => event));
  for (const event of ["turn_ended", "request_ended", "request_refused", "replica_state"])
    t.true(events.has(event), event);
  t.true(answer.length > 3 && ids.length > 3);
  for (const [what, secret] of [
    ["the prompt", canary],
    ["the prompt in base64", Buffer.from(canary).toString("base64").slice(0, 12)],
    ["the answer", answer],
    ["the local key", agent.localKey],
    ["the signing secret", Buffer.from(agent.signing.secret).toString("base64url")],
    ["token ids", ids],
  ] as const) {
    t.false(log.includes(secret), `${what} is in the log`);
  }
});

test("with --log-prompts, and only then, question and answer are logged, once a turn", async (t) => {
  const agent = await startAgentUnderTest(["--log-prompts"]);
  const plain = (await (await agent.chat(question)).json()) as { choices: [{ message: { content: string } }] };
  await (await agent.chat({ ...question, stream: true })).text();
  const texts = linesOf(await endedLog(agent)).filter(({ event }) => event === "turn_text");
  t.is(texts.length, 2);
  for (const line of texts) {
    t.deepEqual(JSON.parse(String(line.messages)), question.messages);
    t.is(line.answer, plain.choices[0].message.content);
    t.regex(String(line.request), /^req_/);
  }
});

test("every line about a request has its id, the client's own is beside it, and the trace goes on with a span of ours", async (t) => {
  const agent = await startAgentUnderTest(["--log-level", "debug"]);
  const authorization = `Bearer ${agent.localKey}`;
  const headers = {
    authorization,
    traceparent,
    "x-request-id": `mine ${"x".repeat(200)}`,
    "content-type": "application/json",
  };
  const answered = await agent.chat(question, { headers });
  await answered.text();
  const id = answered.headers.get("x-request-id");
  const refused = await agent.chat({ ...question, temperature: 99 }, { headers: { ...headers, traceparent: "00-zz" } });
  const about = (lines: Line[], request: string | null) => lines.filter((line) => line.request === request);
  const lines = linesOf(await endedLog(agent));
  const first = about(lines, id);
  t.deepEqual(
    first.map(({ event }) => event),
    ["turn_ended", "request_ended"],
  );
  const [{ span_id: spanId } = {}] = first;
  t.regex(String(spanId), /^[0-9a-f]{16}$/);
  t.not(spanId, parentId);
  for (const line of first) {
    t.like(line, { client_request: `mine?${"x".repeat(59)}`, trace_id: traceId, parent_id: parentId, span_id: spanId });
  }
  const second = about(lines, refused.headers.get("x-request-id"));
  t.like(second[0], { event: "request_ended", level: "info", status: 400, route: "/v1/chat/completions" });
  t.false("trace_id" in (second[0] ?? {}), "a malformed traceparent is no trace");
});

test("a trace that comes to the edge is in the agent's log, under the edge's own request id", async (t) => {
  const agent = await startAgentUnderTest();
  const edge = await startEdgeBefore(agent);
  try {
    const authorization = `Bearer ${edge.key}`;
    const headers = { authorization, traceparent, tracestate: "a=b", "content-type": "application/json" };
    const response = await edge.chat(question, { headers });
    t.is(response.status, 200);
    await response.text();
    const untraced = await edge.chat(question, { headers: { ...headers, traceparent: `${traceparent}-00` } });
    await untraced.text();
    const lines = linesOf(await endedLog(agent)).filter(({ event }) => event === "turn_ended");
    t.like(lines[0], { request: response.headers.get("x-request-id"), trace_id: traceId, parent_id: parentId });
    t.is(lines[1]?.request, untraced.headers.get("x-request-id"));
    t.false("trace_id" in (lines[1] ?? {}));
  } finally {
    await edge.stop();
  }
});
