/**
 * Usage records and heartbeats of the real agent, at a scripted edge that verifies signatures: what arrives, how often, in which order,
 * when turns end well and otherwise, when the edge refuses, fails or is away, and when the agent ends.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { runAgentCommand } from "../helpers/agent-command.ts";
import { type AgentUnderTest, agentEntry, atRest, poll, signedBy } from "../helpers/agent-process.ts";
import { makeDeepModel } from "../helpers/deep-model.ts";
import { expectedAnswer } from "../helpers/expected-answers.ts";
import { startScript } from "../helpers/processes.ts";
import { parseScrape } from "../helpers/prometheus.ts";
import { startScriptedEdge } from "../helpers/scripted-edge.ts";

/** Blocks times this: about 10 ms a token. */
const deep = makeDeepModel(16);
test.after.always(() => deep.remove());

const portugal = expectedAnswer("fact-001");
const question = (extra: object = {}) => ({ model: "default", messages: portugal.messages, ...extra });
/** An answer that goes on to the end of the context: the end tokens are banned. */
const endless = (content: string) => ({
  model: "default",
  stream: true,
  messages: [{ role: "user", content }],
  logit_bias: { 1021: -100, 1023: -100 },
});

/** A directory for a spool, and an edge; both go with the test. */
const setUp = async (t: ExecutionContext) => {
  const spool = mkdtempSync(join(tmpdir(), "lockgate-spool-"));
  const edge = await startScriptedEdge();
  t.teardown(async () => {
    await edge.stop();
    rmSync(spool, { recursive: true, force: true });
  });
  return { spool, edge };
};

const requestIdOf = (response: Response): string => response.headers.get("x-request-id") ?? "";

test.serial("a finished turn, plain or streamed, is booked once with its own counts", async (t) => {
  const { spool, edge } = await setUp(t);
  const agent = await edge.startAgent(["--spool", spool, "--agent-id", "gpu-7"]);
  for (const stream of [false, true]) {
    const response = await agent.chat(question({ stream }));
    const text = await response.text();
    const requestId = requestIdOf(response);
    await edge.until(() => edge.booked.some((record) => record.request_id === requestId), "the record");
    const record = edge.booked.find((booked) => booked.request_id === requestId);
    t.like(record, {
      turn_id: `${requestId}.1`,
      attempt: 1,
      key_id: null,
      agent_id: "gpu-7",
      outcome: "finished",
      finish_reason: "stop",
      error_code: null,
      prompt_tokens: portugal.prompt_tokens,
      completion_tokens: portugal.expected_tokens,
      replica: 0,
    });
    t.is(record?.engine?.generated_tokens, portugal.expected_tokens);
    t.is(record?.engine?.prompt_tokens, portugal.prompt_tokens);
    t.true((record?.ended_at_ms ?? 0) >= (record?.started_at_ms ?? Number.MAX_VALUE));
    if (!stream) {
      const { usage } = JSON.parse(text) as { usage: { prompt_tokens_details: { cached_tokens: number } } };
      t.is(record?.cached_tokens, usage.prompt_tokens_details.cached_tokens);
    }
  }
  t.is(await agent.stop(), 0);
  t.is(edge.booked.length, 2);
  t.deepEqual(edge.again, []);
  t.deepEqual(edge.refusals, []);
});

test.serial("a turn that an edge sent names the edge's request and the key it let in", async (t) => {
  const { spool, edge } = await setUp(t);
  const agent = await edge.startAgent(["--spool", spool]);
  const body = JSON.stringify(question());
  const response = await fetch(`${agent.url}/v1/chat/completions`, {
    method: "POST",
    headers: [...(await signedBy(agent, body)), ["content-type", "application/json"]],
    body,
  });
  await response.text();
  t.is(await agent.stop(), 0);
  t.like(edge.booked[0], { turn_id: "req_test.1", request_id: "req_test", key_id: "k" });
});

test.serial("records that no edge had yet are delivered at SIGTERM, before the agent ends", async (t) => {
  const { spool, edge } = await setUp(t);
  const agent = await edge.startAgent(["--spool", spool]);
  const responses = await Promise.all([1, 2, 3].map(() => agent.chat(question())));
  await Promise.all(responses.map((response) => response.text()));
  t.is(await agent.stop(), 0);
  t.deepEqual(edge.booked.map(({ request_id }) => request_id).sort(), responses.map(requestIdOf).sort());
});

test.serial("field report 27: a client that goes away mid-stream leaves the record of what it consumed", async (t) => {
  const { spool, edge } = await setUp(t);
  const agent = await edge.startAgent(["--spool", spool, "--model", deep.path]);
  const gone = new AbortController();
  const response = await agent.chat(endless("Say hello."), { signal: gone.signal });
  const reader = (response.body ?? t.fail("no body")).getReader();
  for (let seen = ""; !seen.includes('"content":"') || seen.split("\n\n").length < 4; ) {
    seen += Buffer.from((await reader.read()).value ?? []).toString();
  }
  gone.abort();
  await edge.until(() => edge.booked.length === 1, "the record");
  const [record] = edge.booked;
  t.like(record, { turn_id: `${requestIdOf(response)}.1`, outcome: "aborted", finish_reason: null });
  t.true((record?.completion_tokens ?? 0) > 0);
  t.true((record?.engine?.generated_tokens ?? 0) >= (record?.completion_tokens ?? Number.MAX_VALUE));
  t.is(record?.engine?.finish, "cancel");
  t.is(record?.prompt_tokens, record?.engine?.prompt_tokens);
  t.is(await agent.stop(), 0);
});

test.serial(
  "a client that goes away while it waits leaves a record without a replica, which ends the request",
  async (t) => {
    const { spool, edge } = await setUp(t);
    const agent = await edge.startAgent(["--spool", spool, "--model", deep.path, "--replicas", "1"]);
    const waits = new AbortController();
    const running = await agent.chat(endless("Say hello."));
    await agent.untilWire((turns) => turns.length === 1, "the GEN of the turn that runs");
    const waiting = await agent.chat(endless("Say more."), { signal: waits.signal });
    await agent.until((status) => status.waiting === 1, "a turn that waits");
    waits.abort();
    await edge.until(() => edge.booked.length === 1, "the record");
    t.like(edge.booked[0], { turn_id: `${requestIdOf(waiting)}.1`, outcome: "aborted", replica: null, final: true });
    t.like(edge.booked[0], { prompt_tokens: 0, completion_tokens: 0, engine: null });
    await running.body?.cancel();
    t.is(await agent.stop(), 0);
  },
);

test.serial("a turn that lost its replica in the prefill is two attempts, and the bill is the second", async (t) => {
  const { spool, edge } = await setUp(t);
  const agent = await edge.startAgent(["--spool", spool, "--model", deep.path, "--replicas", "2"]);
  const pending = agent.chat({ ...endless("word ".repeat(600)), stream: false, max_tokens: 2 });
  const [turn] = await agent.untilWire((turns) => turns.length === 1, "the first GEN");
  const victim = agent.pids.replicas[turn?.replica ?? -1];
  if (victim === undefined) return t.fail("the turn ran nowhere");
  process.kill(victim, "SIGKILL");
  const response = await pending;
  const { usage } = (await response.json()) as { usage: { prompt_tokens: number; completion_tokens: number } };
  await edge.until(() => edge.booked.length === 2, "two records");
  const [first, second] = edge.booked;
  t.like(first, { turn_id: `${requestIdOf(response)}.1`, outcome: "failed", error_code: "overloaded", engine: null });
  t.deepEqual([first?.final, second?.final], [false, true]);
  t.like(second, { turn_id: `${requestIdOf(response)}.2`, outcome: "finished", finish_reason: "length" });
  t.not(first?.replica, second?.replica);
  t.is((first?.prompt_tokens ?? -1) + (second?.prompt_tokens ?? -1), usage.prompt_tokens);
  t.is((first?.completion_tokens ?? -1) + (second?.completion_tokens ?? -1), usage.completion_tokens);
  t.is(await agent.stop(), 0);
});

test.serial("an edge that is away for a while gets everything later, in order", async (t) => {
  const { spool, edge } = await setUp(t);
  const answers: (number | "reset")[] = ["reset", 503, 404, 401];
  edge.onUsage = () => answers.shift() ?? 204;
  const agent = await edge.startAgent(["--spool", spool]);
  const ids: string[] = [];
  for (let turn = 0; turn < 6; turn++) {
    const response = await agent.chat(question());
    await response.text();
    ids.push(requestIdOf(response));
  }
  await edge.until(() => edge.booked.length === ids.length, "all records");
  t.deepEqual(
    edge.booked.map(({ request_id }) => request_id),
    ids,
  );
  t.deepEqual(answers, []);
  t.is(await agent.stop(), 0);
});

test.serial("a record that the edge refuses for good goes to the reject file, and holds nobody up", async (t) => {
  const { spool, edge } = await setUp(t);
  edge.onUsage = () => 503;
  const agent = await edge.startAgent(["--spool", spool]);
  const ids: string[] = [];
  for (let turn = 0; turn < 5; turn++) {
    const response = await agent.chat(question());
    await response.text();
    ids.push(requestIdOf(response));
  }
  const bad = ids[2];
  edge.onUsage = ({ records }) => (records.some(({ request_id }) => request_id === bad) ? 422 : 204);
  await edge.until(() => edge.booked.length === 4, "the other records");
  t.deepEqual(
    edge.booked.map(({ request_id }) => request_id),
    ids.filter((id) => id !== bad),
  );
  t.is(await agent.stop(), 0);
  const rejected = readFileSync(join(spool, "rejected.jsonl"), "utf8").trim().split("\n");
  t.is(rejected.length, 1);
  t.like(JSON.parse(rejected[0] ?? ""), {
    reason: "the edge answered 422",
    record: { turn_id: `${bad}.1`, completion_tokens: portugal.expected_tokens },
  });
});

/** What the agent tells of its spool: in its status, and in its metrics (delivery failures by a code). */
const told = async (agent: AgentUnderTest, code: string) => {
  const headers = { authorization: `Bearer ${agent.localKey}` };
  const status = (await (await fetch(`${agent.url}/v1/status`, { headers })).json()) as { usage: unknown };
  const { series, value } = parseScrape(await (await fetch(`${agent.url}/metrics`, { headers })).text());
  const failures = series.some(({ labels }) => labels.code === code)
    ? value("lockgate:usage_delivery_failures_total", { code })
    : 0;
  return {
    usage: status.usage,
    backlog: value("lockgate:usage_backlog_records"),
    rejected: value("lockgate:usage_rejected_records_total"),
    failures,
  };
};

test.serial("status and metrics tell what waits, what was rejected and why the last delivery failed", async (t) => {
  const { spool, edge } = await setUp(t);
  edge.onUsage = () => 503;
  const agent = await edge.startAgent(["--spool", spool]);
  t.deepEqual(await told(agent, "http_503"), {
    usage: { backlog: 0, rejected: 0, delivery_error: null },
    backlog: 0,
    rejected: 0,
    failures: 0,
  });
  const ids: string[] = [];
  for (let turn = 0; turn < 3; turn++) {
    const response = await agent.chat(question());
    await response.text();
    ids.push(requestIdOf(response));
  }
  await edge.until(() => edge.batches.length >= 1, "a delivery that fails");
  const waiting = await poll(
    () => told(agent, "http_503"),
    ({ failures }) => failures > 0,
    "a failure that is told",
  );
  t.deepEqual(waiting.usage, { backlog: 3, rejected: 0, delivery_error: "http_503" });
  t.is(waiting.backlog, 3);
  const shown = await runAgentCommand(["status", "--url", agent.url], { env: { LOCKGATE_LOCAL_KEY: agent.localKey } });
  t.regex(shown.stdout, /^usage records: 3 wait for the edge, 0 rejected; the last delivery failed: http_503$/m);
  edge.onUsage = ({ records }) => (records.some(({ request_id }) => request_id === ids[1]) ? 422 : 204);
  await edge.until(() => edge.booked.length === 2, "the two good records");
  const after = await poll(
    () => told(agent, "http_503"),
    ({ backlog }) => backlog === 0,
    "an empty spool",
  );
  t.like(after, { usage: { backlog: 0, rejected: 1, delivery_error: null }, rejected: 1 });
  t.is(await agent.stop(), 0);
});

test.serial("an agent without a spool says so in its status", async (t) => {
  const { edge } = await setUp(t);
  const agent = await edge.startAgent();
  t.is((await told(agent, "none")).usage, null);
  t.is(await agent.stop(), 0);
});

test.serial("a full spool refuses new turns with 503, says so in heartbeats, and recovers with the edge", async (t) => {
  const { spool, edge } = await setUp(t);
  edge.onUsage = () => 503;
  const agent = await edge.startAgent(["--spool", spool, "--spool-max", "3", "--heartbeat-interval", "0.05"]);
  for (let turn = 0; turn < 3; turn++) t.is((await agent.chat(question())).status, 200);
  await agent.until(atRest, "rest");
  for (const stream of [false, true]) {
    const refused = await agent.chat(question({ stream }));
    t.is(refused.status, 503);
    t.true(Number(refused.headers.get("retry-after")) >= 1);
    t.is(((await refused.json()) as { error: { code: string } }).error.code, "overloaded");
  }
  await edge.until(() => edge.heartbeats.at(-1)?.usage_backlog === 3, "a heartbeat with the backlog");
  t.is(edge.heartbeats.at(-1)?.state, "overloaded");
  t.is((await agent.status()).inflight, 0);
  edge.onUsage = () => 204;
  await edge.until(() => edge.booked.length === 3 && edge.heartbeats.at(-1)?.state === "ready", "recovery");
  t.is((await agent.chat(question())).status, 200);
  t.is(await agent.stop(), 0);
  t.is(edge.booked.length, 4);
});

test.serial("heartbeats are signed and tell state, models, replicas, slots, load and speed", async (t) => {
  const { edge } = await setUp(t);
  const words = ["--model", deep.path, "--model-name", "deep", "--replicas", "2", "--slots", "2"];
  const agent = await edge.startAgent([...words, "--agent-id", "gpu-7", "--heartbeat-interval", "0.05"]);
  await edge.until(() => edge.heartbeats.at(-1)?.free_slots === 4, "a heartbeat of both replicas");
  t.like(edge.heartbeats.at(-1), {
    agent_id: "gpu-7",
    state: "ready",
    models: ["deep"],
    inflight: 0,
    waiting: 0,
    tokens_per_second: null,
    usage_backlog: 0,
  });
  t.deepEqual(
    edge.heartbeats.at(-1)?.replicas.map(({ index, slots, free_slots }) => [index, slots, free_slots]),
    [
      [0, 2, 2],
      [1, 2, 2],
    ],
  );
  const response = await agent.chat({ ...endless("Say hello."), max_tokens: 50 });
  await edge.until(() => edge.heartbeats.at(-1)?.free_slots === 3, "a heartbeat during the turn");
  t.is(edge.heartbeats.at(-1)?.inflight, 1);
  await response.text();
  await edge.until(() => (edge.heartbeats.at(-1)?.tokens_per_second ?? 0) > 0, "a measured speed");
  const draining = agent.stop();
  await edge.until(() => edge.heartbeats.at(-1)?.state === "draining", "a draining heartbeat");
  t.is(await draining, 0);
  t.deepEqual(edge.refusals, []);
});

test.serial("a replica that comes or goes is told at once, however long the pause between heartbeats", async (t) => {
  const { edge } = await setUp(t);
  const agent = await edge.startAgent(["--heartbeat-interval", "3600", "--heal-cooldown", "0.1"]);
  await edge.until(() => edge.heartbeats.at(-1)?.state === "ready", "a heartbeat of the first READY");
  t.is(edge.heartbeats[0]?.state, "starting");
  const [pid] = agent.pids.replicas;
  if (pid === undefined) throw new Error("the agent has no replica");
  const before = edge.heartbeats.length;
  process.kill(pid, "SIGKILL");
  await edge.until(() => edge.heartbeats.length > before && edge.heartbeats.at(-1)?.state === "ready", "the heal");
  t.true(edge.heartbeats.slice(before).some(({ state }) => state !== "ready"));
  t.is(await agent.stop(), 0);
});

test.serial(
  "what is not signed, or by another key, is refused: nothing is booked and the agent keeps its records",
  async (t) => {
    const { spool, edge } = await setUp(t);
    const agent = await edge.startAgent(["--spool", spool]);
    for (const path of ["/internal/v1/usage", "/internal/v1/heartbeat"]) {
      t.is((await fetch(`${edge.url}${path}`, { method: "POST", body: "{}" })).status, 401);
    }
    t.deepEqual(edge.refusals, ["missing_signature", "missing_signature"]);
    edge.trust({ keyId: agent.signing.keyId, secret: agent.signing.secret.map((byte) => byte ^ 1) });
    await (await agent.chat(question())).text();
    await edge.until(() => edge.refusals.filter((reason) => reason === "bad_mac").length >= 2, "refusals");
    t.is(edge.booked.length, 0);
    edge.trust(agent.signing);
    await edge.until(() => edge.booked.length === 1, "the record");
    t.is(await agent.stop(), 0);
  },
);

test.serial("two agents cannot share a spool, and a configuration that cannot work is told", async (t) => {
  const { spool, edge } = await setUp(t);
  const agent = await edge.startAgent(["--spool", spool]);
  const secret = Buffer.alloc(32, 7).toString("base64url");
  const withSigning = { ...process.env, LOCKGATE_SIGNING_KEYS: JSON.stringify({ k: secret }) };
  const withLocal = { ...process.env, LOCKGATE_LOCAL_KEY: "a-local-key-of-a-test" };
  for (const [words, env, exitCode, says] of [
    [["--edge-url", edge.url, "--spool", spool], withSigning, 69, /belongs to another agent/],
    [["--spool", spool], withSigning, 78, /--spool needs --edge-url/],
    [["--edge-url", edge.url], withLocal, 78, /--edge-url needs signing keys/],
    [["--edge-url", edge.url, "--agent-id", "a b"], withSigning, 78, /--agent-id must be/],
    [["--edge-url", edge.url, "--spool", join(agentEntry, "spool")], withSigning, 69, /cannot be used \(ENOTDIR\)/],
  ] as const) {
    const started = startScript(agentEntry, ["serve", "--log-level", "error", "--port", "0", ...words], env);
    t.is(await started.exited, exitCode);
    t.regex(await started.stderr, says);
  }
  t.is(await agent.stop(), 0);
});
