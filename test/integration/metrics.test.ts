/** The metrics of a real agent under real turns: held against the wire log, against who may read them, and against a replica's death. */
import test, { type ExecutionContext } from "ava";
import { type AgentUnderTest, agentEntry, atRest, startAgentUnderTest } from "../helpers/agent-process.ts";
import { makeDeepModel } from "../helpers/deep-model.ts";
import { startScript } from "../helpers/processes.ts";
import { parseScrape, type Scrape } from "../helpers/prometheus.ts";

/** Blocks times this: about 10 to 30 ms a token, so that a state lasts until it was looked at. */
const DEPTH = 32;
const HEAL_COOLDOWN_S = "0.2";
const STATE_LIMIT_MS = 30_000;

const deep = makeDeepModel(DEPTH);
let agent: AgentUnderTest;
let openUrl: string;

test.before(async () => {
  agent = await startAgentUnderTest([
    ...["--replicas", "2", "--model", deep.path],
    ...["--heal-cooldown", HEAL_COOLDOWN_S, "--metrics-port", "0"],
  ]);
  openUrl = (JSON.parse(await agent.firstLine) as { metrics: string }).metrics;
});
test.after.always(async (t) => {
  t.is(await agent?.stop(), 0);
  deep.remove();
});

/** Labels that all of OpenTelemetry's families have. */
const chatLabels = async () => ({
  gen_ai_operation_name: "chat",
  gen_ai_provider_name: "lockgate",
  gen_ai_request_model: (JSON.parse(await agent.firstLine) as { model: string }).model,
});

const scrape = async (): Promise<Scrape> => parseScrape(await (await fetch(openUrl)).text());
/** Of both replicas together. */
const both = ({ value }: Scrape, name: string): number => value(name, { replica: "0" }) + value(name, { replica: "1" });

/** Scrapes until it is as wanted; the limit fails the test. */
const until = async (wanted: (figures: Scrape) => boolean, what: string): Promise<Scrape> => {
  const limitMs = Date.now() + STATE_LIMIT_MS;
  for (;;) {
    const figures = await scrape();
    if (wanted(figures)) return figures;
    if (Date.now() > limitMs) throw new Error(`${what} did not come about`);
  }
};

const question = (content: string) => ({ model: "default", messages: [{ role: "user", content }] });
/** The end tokens are banned: it goes on until its limit, or until somebody leaves. */
const endless = { ...question("Say hello."), logit_bias: { 1021: -100, 1023: -100 } };

/** Reads a stream until the first text came, and leaves it open. */
const firstText = async (response: Response) => {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (reader === undefined) throw new Error("no body");
  for (let seen = ""; !/"content":"[^"]/.test(seen); ) {
    const { value, done } = await reader.read();
    if (done) throw new Error(`the stream ended: ${seen}`);
    seen += value;
  }
};

test.serial("who may read: on the agent's own port a key is asked for, on the other one nothing", async (t) => {
  t.is((await fetch(`${agent.url}/metrics`)).status, 401);
  const own = await fetch(`${agent.url}/metrics`, { headers: { authorization: `Bearer ${agent.localKey}` } });
  t.is(own.status, 200);
  t.is(own.headers.get("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  t.true(parseScrape(await own.text()).types.has("vllm:num_requests_running"));
  t.is(new URL(openUrl).hostname, "127.0.0.1");
  const open = await fetch(openUrl);
  t.is(open.status, 200);
  t.is(open.headers.get("content-type"), own.headers.get("content-type"));
  t.is((await fetch(new URL("/v1/models", openUrl))).status, 404);
  t.is((await fetch(openUrl, { method: "POST" })).status, 405);
});

test.serial("token counters, latencies and outcomes are those of the wire log", async (t) => {
  const before = await scrape();
  const turnsBefore = agent.wire().length;
  await (await agent.chat({ ...question("Count from 1 to 9."), max_tokens: 12 })).json();
  await (await agent.chat({ ...question("Count from 1 to 9."), max_tokens: 5, stream: true })).text();
  await (await agent.chat({ ...endless, max_tokens: 7 })).json();
  t.is((await agent.chat({ ...question("x"), max_tokens: -1 })).status, 400);
  await agent.until(atRest, "rest");
  const after = await scrape();
  const turns = agent.wire().slice(turnsBefore);
  t.is(turns.length, 3);
  const sum = (of: (turn: (typeof turns)[number]) => number) => turns.reduce((total, turn) => total + of(turn), 0);
  const added = (name: string) => both(after, name) - both(before, name);
  t.is(
    added("vllm:generation_tokens_total"),
    sum(({ done }) => done?.generated ?? Number.NaN),
  );
  t.is(
    added("vllm:prompt_tokens_total"),
    sum(({ promptIds }) => promptIds.length),
  );
  t.is(
    added("vllm:prefix_cache_queries_total"),
    sum(({ promptIds }) => promptIds.length),
  );
  t.is(
    added("vllm:prefix_cache_hits_total"),
    sum(({ done }) => done?.reused ?? Number.NaN),
  );
  t.is(
    added("vllm:inter_token_latency_seconds_count"),
    sum(({ tokens }) => tokens.length - 1),
  );
  t.is(added("vllm:time_to_first_token_seconds_count"), 3);
  t.is(added("vllm:e2e_request_latency_seconds_count"), 3);
  const chat = await chatLabels();
  for (const name of ["request_duration", "time_to_first_token", "time_per_output_token"]) {
    const family = `gen_ai_server_${name}_seconds_count`;
    t.is(after.value(family, chat) - before.value(family, chat), 3, family);
  }
  t.is(added("lockgate:lock_wait_seconds_count"), 3);
  t.is(added("lockgate:drain_seconds_count"), 0);
  const decodeS = sum(({ done }) => done?.decodeMs ?? Number.NaN) / 1_000;
  const gapsS = added("vllm:inter_token_latency_seconds_sum");
  t.true(gapsS > 0.5 * decodeS && gapsS < 2 * decodeS, `gaps ${gapsS} s, decode ${decodeS} s`);
  t.is(after.value("lockgate:http_responses_total", { route: "/v1/chat/completions", status: "400" }), 1);
});

test.serial(
  "running, waiting and the KV cache while turns run; a client that leaves is a cancelled turn with a drain",
  async (t) => {
    const before = await scrape();
    const abort = new AbortController();
    const abortWaiting = new AbortController();
    const call = ({ signal }: AbortController) => agent.chat({ ...endless, stream: true }, { signal }).then(firstText);
    t.teardown(() => {
      abort.abort();
      abortWaiting.abort();
    });
    const callers = [call(abort), call(abort)];
    await until((figures) => both(figures, "vllm:num_requests_running") === 2, "two turns that run");
    callers.push(call(abortWaiting));
    const settled = Promise.allSettled(callers);
    const waiting = (figures: Scrape) =>
      both(figures, "vllm:num_requests_waiting") + figures.value("vllm:num_requests_waiting", { replica: "none" });
    const busy = await until(
      (figures) =>
        both(figures, "vllm:num_requests_running") === 2 &&
        waiting(figures) === 1 &&
        ["0", "1"].every((replica) => figures.value("vllm:kv_cache_usage_perc", { replica }) > 0),
      "two turns that run and one that waits",
    );
    for (const replica of ["0", "1"]) {
      const usage = busy.value("vllm:kv_cache_usage_perc", { replica });
      t.true(usage > 0 && usage < 1, `replica ${replica}: ${usage}`);
    }
    const late = await fetch(`${agent.url}/v1/chat/completions`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${agent.localKey}`,
        "content-type": "application/json",
        "x-stainless-timeout": "0.05",
      },
      body: JSON.stringify(question("x")),
    });
    t.is(late.status, 408);
    const told = await scrape();
    t.is(told.value("lockgate:request_failures_total", { replica: "none", code: "deadline_exceeded" }), 1);
    const error_type = "deadline_exceeded";
    t.is(told.value("gen_ai_server_request_duration_seconds_count", { ...(await chatLabels()), error_type }), 1);
    await Promise.race(callers);
    // First the one that waits: it would begin, and be drained too, in the place of one that leaves before it.
    abortWaiting.abort();
    await until((figures) => waiting(figures) === 0, "nobody who waits");
    abort.abort();
    await settled;
    await agent.until(atRest, "rest");
    const after = await scrape();
    t.is(both(after, "vllm:num_requests_running"), 0);
    t.is(both(after, "vllm:kv_cache_usage_perc"), 0);
    t.is(both(after, "lockgate:drain_seconds_count") - both(before, "lockgate:drain_seconds_count"), 2);
    const cancelled = (figures: Scrape) =>
      both(figures, "lockgate:cancelled_turns_total") + noReplica(figures, "lockgate:cancelled_turns_total");
    t.is(cancelled(after) - cancelled(before), 3);
  },
);

/** Of no replica; 0 before the first. */
const noReplica = ({ series, value }: Scrape, name: string): number =>
  series.some((one) => one.name === name && one.labels.replica === "none") ? value(name, { replica: "none" }) : 0;

test.serial("a replica that is killed in mid-stream: a poisoned turn, a poisoning, and a heal", async (t) => {
  const response = await agent.chat({ ...endless, stream: true });
  await firstText(response);
  const { replicas } = await agent.status();
  const hit = replicas.find(({ inflight }) => inflight === 1);
  if (hit?.pid === undefined || hit.pid === null) throw new Error("no replica runs the turn");
  process.kill(hit.pid, "SIGKILL");
  const labels = { replica: String(hit.index) };
  const healed = await until(({ value }) => value("lockgate:replica_heals_total", labels) === 1, "a heal");
  t.is(healed.value("lockgate:poisoned_turns_total", labels), 1);
  t.is(healed.value("lockgate:replica_poisonings_total", labels), 1);
  t.is(healed.value("lockgate:request_failures_total", { ...labels, code: "overloaded" }), 1);
  await until(({ value }) => value("lockgate:replica_up", labels) === 1, "a replica that takes turns again");
});

test.serial("a metrics port that is taken ends the start with 69 and its reason", async (t) => {
  const taken = new URL(openUrl).port;
  const started = startScript(agentEntry, ["serve", "--port", "0", "--metrics-port", taken], {
    ...process.env,
    LOCKGATE_LOCAL_KEY: agent.localKey,
  });
  t.is(await started.exited, 69);
  t.regex(await started.stderr, new RegExp(`cannot listen for metrics on 127\\.0\\.0\\.1:${taken} \\(EADDRINUSE\\)`));
});

test.serial(
  "no label of a whole run names a user, a key, a request or a client's words",
  async (t: ExecutionContext) => {
    await agent.chat({ ...question("label canary"), model: "label-canary", user: "label-canary" });
    await fetch(`${agent.url}/v1/label-canary`, { headers: { authorization: `Bearer ${agent.localKey}` } });
    const { series } = await scrape();
    const genAi = ["gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model", "error_type"];
    const allowed = new Set(["replica", "le", "state", "finished_reason", "code", "route", "status", ...genAi]);
    for (const { name, labels } of series) {
      for (const [key, value] of Object.entries(labels)) {
        t.true(allowed.has(key), `${name} has ${key}`);
        t.false(/canary|req_/.test(value), `${name} says ${value}`);
      }
    }
  },
);
