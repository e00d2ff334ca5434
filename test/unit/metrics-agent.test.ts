import test from "ava";
import { AgentMetrics } from "../../gpu-agent/src/metrics/agent-metrics.ts";
import { openOwnedTurn } from "../../gpu-agent/src/replicas/owned-turn.ts";
import { doneLine, promiseJobs, requestOf, startFleet, testLimits } from "../helpers/fake-engine.ts";
import { parseScrape } from "../helpers/prometheus.ts";

const R0 = { replica: "0" };
const R1 = { replica: "1" };

const watched = async (replicas: number) => {
  const fleet = await startFleet(replicas);
  const metrics = new AgentMetrics(replicas, "m");
  let queued = 0;
  metrics.watch({ replicas: fleet.pool.replicas, queued: () => queued });
  return {
    fleet,
    metrics,
    setQueued: (turns: number) => {
      queued = turns;
    },
    scrape: async () => parseScrape(await metrics.text()),
  };
};

test("every family of the contract is there from the first scrape, with a replica where one is meant", async (t) => {
  const { scrape } = await watched(2);
  const { types, value, series } = await scrape();
  for (const [name, type] of [
    ["vllm:num_requests_running", "gauge"],
    ["vllm:num_requests_waiting", "gauge"],
    ["vllm:prompt_tokens_total", "counter"],
    ["vllm:generation_tokens_total", "counter"],
    ["vllm:prefix_cache_queries_total", "counter"],
    ["vllm:prefix_cache_hits_total", "counter"],
    ["vllm:kv_cache_usage_perc", "gauge"],
    ["vllm:spec_decode_num_draft_tokens_total", "counter"],
    ["vllm:spec_decode_num_accepted_tokens_total", "counter"],
    ["vllm:time_to_first_token_seconds", "histogram"],
    ["vllm:inter_token_latency_seconds", "histogram"],
    ["vllm:e2e_request_latency_seconds", "histogram"],
    ["vllm:request_success_total", "counter"],
    ["lockgate:lock_wait_seconds", "histogram"],
    ["lockgate:drain_seconds", "histogram"],
    ["lockgate:poisoned_turns_total", "counter"],
    ["lockgate:replica_heals_total", "counter"],
    ["lockgate:cancelled_turns_total", "counter"],
    ["lockgate:dropped_lines_total", "counter"],
    ["lockgate:usage_backlog_records", "gauge"],
    ["lockgate:usage_rejected_records_total", "counter"],
    ["lockgate:usage_delivery_failures_total", "counter"],
  ] as const) {
    t.is(types.get(name), type, name);
    if (name === "vllm:request_success_total" || name.startsWith("lockgate:usage_")) continue;
    for (const replica of ["0", "1"]) t.is(value(type === "histogram" ? `${name}_count` : name, { replica }), 0, name);
  }
  const common = { gen_ai_operation_name: "chat", gen_ai_provider_name: "lockgate", gen_ai_request_model: "m" };
  for (const name of ["request_duration", "time_to_first_token", "time_per_output_token"]) {
    t.is(types.get(`gen_ai_server_${name}_seconds`), "histogram", name);
    t.is(value(`gen_ai_server_${name}_seconds_count`, common), 0, name);
  }
  const names = new Set(series.flatMap(({ labels }) => Object.keys(labels)));
  t.deepEqual([...names].toSorted(), [...Object.keys(common), "le", "replica", "state"]);
});

test("running, waiting and the KV cache are read as they are: one runs, two wait, the held tokens over all slots", async (t) => {
  const { fleet, metrics, setQueued, scrape } = await watched(2);
  const abort = new AbortController();
  const request = requestOf(1_024);
  const turns = Array.from({ length: 4 }, () => {
    const open = metrics.request(0).open(openOwnedTurn);
    const turn = open(fleet.pool.admit(request, abort.signal), request, abort.signal);
    return turn.tokens.next().catch(() => undefined);
  });
  setQueued(7);
  await promiseJobs();
  const { value } = await scrape();
  for (const labels of [R0, R1]) {
    t.is(value("vllm:num_requests_running", labels), 1);
    t.is(value("vllm:num_requests_waiting", labels), 1);
    t.is(value("vllm:kv_cache_usage_perc", labels), 0.25, "a prompt of 1024 in one slot of 4096");
    t.is(value("lockgate:replica_state", { ...labels, state: "busy" }), 1);
  }
  t.is(value("vllm:num_requests_waiting", { replica: "none" }), 7);
  abort.abort();
  await promiseJobs();
  for (const [index, turn] of [1, 2].entries()) {
    await fleet.process(index).say(`${doneLine(0, 1_024, "cancel")} turn=${turn}`);
  }
  await Promise.all(turns);
  const rest = await scrape();
  for (const labels of [R0, R1]) {
    t.is(rest.value("vllm:num_requests_running", labels), 0);
    t.is(rest.value("vllm:kv_cache_usage_perc", labels), 0);
    t.is(rest.value("lockgate:replica_state", { ...labels, state: "busy" }), 0, "a state that is over says 0");
    t.is(rest.value("lockgate:replica_state", { ...labels, state: "ready" }), 1);
  }
});

test("dropped lines, poisonings and heals add up over a replica's lives, and reading twice counts nothing twice", async (t) => {
  const { fleet, metrics, scrape } = await watched(1);
  const abort = new AbortController();
  const request = requestOf(4);
  const turn = openOwnedTurn(fleet.pool.admit(request, abort.signal), request, abort.signal);
  const pulled = turn.tokens.next();
  await promiseJobs();
  await fleet.process(0).say("T 1 turn=9", "T 1 turn=8");
  t.is((await scrape()).value("lockgate:dropped_lines_total", R0), 2);
  await fleet.process(0).say("T 1 turn=7", "nonsense turn=1", "T x turn=1");
  await t.throwsAsync(pulled);
  await turn.tokens.return();
  metrics.replicaChanged(0, "poisoned");
  await fleet.clock.advance(testLimits.healCooldownMs);
  await fleet.process(0).say("READY 4096 stop turns");
  for (let times = 0; times < 2; times++) {
    const { value } = await scrape();
    t.is(value("lockgate:dropped_lines_total", R0), 3);
    t.is(value("lockgate:replica_heals_total", R0), 1);
    t.is(value("lockgate:replica_poisonings_total", R0), 1);
    t.is(value("lockgate:replica_up", R0), 1);
  }
  await fleet.process(0).exit({ code: null, signal: "SIGKILL" });
  t.is((await scrape()).value("lockgate:replica_up", R0), 0);
});

test("answers are counted by route and status", async (t) => {
  const { metrics, scrape } = await watched(1);
  metrics.answered("/v1/models", 200);
  metrics.answered("/v1/models", 200);
  metrics.answered("other", 404);
  const { value } = await scrape();
  t.is(value("lockgate:http_responses_total", { route: "/v1/models", status: "200" }), 2);
  t.is(value("lockgate:http_responses_total", { route: "other", status: "404" }), 1);
});

test("usage records: the backlog as it is, rejected ones once each, failed deliveries by code", async (t) => {
  const metrics = new AgentMetrics(1, "m");
  let figures: { backlog: number; rejected: number; deliveryError: string | null } | undefined;
  metrics.watch({ replicas: [], usage: () => figures });
  const scrape = async () => parseScrape(await metrics.text());
  const none = await scrape();
  t.is(none.value("lockgate:usage_backlog_records"), 0);
  t.is(none.value("lockgate:usage_rejected_records_total"), 0);
  figures = { backlog: 3, rejected: 2, deliveryError: "http_503" };
  for (const code of ["http_503", "ECONNREFUSED", "http_503"]) metrics.deliveryFailed(code);
  for (let times = 0; times < 2; times++) {
    const { value } = await scrape();
    t.is(value("lockgate:usage_backlog_records"), 3);
    t.is(value("lockgate:usage_rejected_records_total"), 2);
    t.is(value("lockgate:usage_delivery_failures_total", { code: "http_503" }), 2);
    t.is(value("lockgate:usage_delivery_failures_total", { code: "ECONNREFUSED" }), 1);
  }
  figures = { backlog: 0, rejected: 5, deliveryError: null };
  const { value } = await scrape();
  t.is(value("lockgate:usage_backlog_records"), 0);
  t.is(value("lockgate:usage_rejected_records_total"), 5);
});

test("a scrape before the replicas are there works", async (t) => {
  t.notThrows(() => new AgentMetrics(1, "m").replicaChanged(0, "starting"));
  t.is(parseScrape(await new AgentMetrics(1, "m").text()).value("lockgate:replica_heals_total", R0), 0);
});
