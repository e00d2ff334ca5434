import test from "ava";
import { Registry } from "prom-client";
import { createInstruments } from "../../gpu-agent/src/metrics/instruments.ts";
import { meterRequest } from "../../gpu-agent/src/metrics/request-meter.ts";
import { EngineLost } from "../../gpu-agent/src/replicas/errors.ts";
import { openOwnedTurn } from "../../gpu-agent/src/replicas/owned-turn.ts";
import type { TurnSink } from "../../gpu-agent/src/turn/run-turn.ts";
import { doneLine, promiseJobs, requestOf, startFleet } from "../helpers/fake-engine.ts";
import { parseScrape } from "../helpers/prometheus.ts";

const R0 = { replica: "0" };
const CHAT = { gen_ai_operation_name: "chat", gen_ai_provider_name: "lockgate", gen_ai_request_model: "m" };
const PROMPT_TOKENS = 6;
const nowhere: TurnSink = { text: () => {}, flush: () => undefined };

/** A fleet, one request's meter on a clock that the test sets, and the figures so far. */
const setUp = async (replicas = 1) => {
  const fleet = await startFleet(replicas);
  const registry = new Registry();
  const heldTokens = Array.from({ length: replicas }, () => 0);
  const clock = { ms: 1_000 };
  const instruments = createInstruments(registry, replicas, "m");
  const meter = meterRequest(instruments, heldTokens, 1_000, () => clock.ms);
  const open = meter.open(openOwnedTurn);
  const abort = new AbortController();
  const request = requestOf(PROMPT_TOKENS);
  return {
    fleet,
    meter,
    heldTokens,
    clock,
    abort,
    begin: () => {
      const admission = fleet.pool.admit(request, abort.signal);
      return {
        admission,
        turn: open(admission, request, abort.signal),
        process: fleet.process(admission.replica.index),
      };
    },
    figures: async () => parseScrape(await registry.metrics()),
  };
};

/** Pulls runs until the turn ends, and gives them back. */
const drainRuns = async (tokens: { next(): Promise<IteratorResult<readonly number[], void>> }) => {
  const runs: number[][] = [];
  for (let run = await tokens.next(); !run.done; run = await tokens.next()) runs.push([...run.value]);
  return runs;
};

test("a turn to its end: each figure once, from its own DONE, and everything passes through as it was", async (t) => {
  const { meter, begin, clock, figures, heldTokens } = await setUp();
  const sink = meter.sink(nowhere);
  const { turn, process } = begin();
  clock.ms += 50;
  const runs = drainRuns(turn.tokens);
  await promiseJobs();
  t.deepEqual(heldTokens, [PROMPT_TOKENS]);
  clock.ms += 150;
  await process.say("RESUME 4 turn=1", "T 1 turn=1", "T 2 turn=1");
  sink.text("a");
  t.deepEqual(heldTokens, [PROMPT_TOKENS + 2]);
  clock.ms += 300;
  await process.say("T 3 turn=1");
  sink.text("b");
  await process.say("DONE 3 6 10.5 20.5 stop 2 5 4 0 0 0 0 0.0 2 0 turn=1");
  t.deepEqual(await runs, [[1, 2], [3]]);
  t.is(turn.statistics()?.generated, 3);
  t.deepEqual(heldTokens, [0]);
  await turn.tokens.return();
  clock.ms += 100;
  meter.ended({
    kind: "finished",
    reason: "stop",
    completionTokens: 3,
    statistics: turn.statistics(),
    turn: 1,
    replica: 0,
  });

  const { value } = await figures();
  t.is(value("vllm:prompt_tokens_total", R0), 6);
  t.is(value("vllm:generation_tokens_total", R0), 3);
  t.is(value("vllm:prefix_cache_queries_total", R0), 6);
  t.is(value("vllm:prefix_cache_hits_total", R0), 4);
  t.is(value("vllm:spec_decode_num_draft_tokens_total", R0), 5);
  t.is(value("vllm:spec_decode_num_accepted_tokens_total", R0), 2);
  t.is(value("vllm:time_to_first_token_seconds_count", R0), 1);
  t.is(value("vllm:time_to_first_token_seconds_sum", R0), 0.2);
  t.is(value("vllm:inter_token_latency_seconds_count", R0), 2, "tokens that came together are 0 apart");
  t.is(value("vllm:inter_token_latency_seconds_sum", R0), 0.3);
  t.is(value("vllm:inter_token_latency_seconds_bucket", { ...R0, le: "0.0005" }), 1);
  t.is(value("vllm:e2e_request_latency_seconds_sum", R0), 0.6);
  t.is(value("vllm:request_success_total", { ...R0, finished_reason: "stop" }), 1);
  t.is(value("gen_ai_server_request_duration_seconds_sum", CHAT), 0.6);
  t.is(value("gen_ai_server_time_to_first_token_seconds_sum", CHAT), 0.2);
  const perToken = value("gen_ai_server_time_per_output_token_seconds_sum", CHAT);
  t.is(perToken, 0.6 - 0.2, "one token behind the two that came with the first text");
  t.is(value("lockgate:lock_wait_seconds_count", R0), 1);
  t.is(value("lockgate:drain_seconds_count", R0), 0, "a turn that ends by itself has no drain");
  t.is(value("lockgate:poisoned_turns_total", R0), 0);
});

test("a turn that its caller ends early: the drain is timed to its DONE, and tokens that nobody read are counted", async (t) => {
  const { begin, clock, figures, heldTokens } = await setUp();
  const { turn, process } = begin();
  const first = turn.tokens.next();
  await promiseJobs();
  await process.say("T 1 turn=1");
  t.deepEqual((await first).value, [1]);
  const closed = turn.tokens.return();
  await process.say("T 2 turn=1", "T 3 turn=1");
  clock.ms += 70;
  await process.say(`${doneLine(3, PROMPT_TOKENS, "cancel")} turn=1`);
  await closed;
  const { value } = await figures();
  t.is(value("lockgate:drain_seconds_count", R0), 1);
  t.is(value("lockgate:drain_seconds_sum", R0), 0.07);
  t.is(value("vllm:generation_tokens_total", R0), 3);
  t.is(value("vllm:prompt_tokens_total", R0), PROMPT_TOKENS);
  t.deepEqual(heldTokens, [0]);
});

test("a client that goes away while its caller waits for a token: the drain begins at the abort", async (t) => {
  const { meter, begin, clock, abort, figures } = await setUp();
  const { turn, process } = begin();
  const runs = drainRuns(turn.tokens);
  await promiseJobs();
  clock.ms += 500;
  abort.abort();
  await promiseJobs();
  clock.ms += 40;
  await process.say(`${doneLine(0, PROMPT_TOKENS, "cancel")} turn=1`);
  t.deepEqual(await runs, []);
  meter.ended({ kind: "aborted", completionTokens: 0, statistics: turn.statistics(), turn: 1, replica: 0 });
  const { value } = await figures();
  t.is(value("lockgate:drain_seconds_sum", R0), 0.04);
  t.is(value("lockgate:cancelled_turns_total", R0), 1);
  t.is(value("vllm:request_success_total", { ...R0, finished_reason: "abort" }), 1);
  t.is(value("vllm:e2e_request_latency_seconds_count", R0), 0);
});

test("the lock wait is the wait: none at once, all of it behind another turn, nothing for one that left the queue", async (t) => {
  const { fleet, begin, clock, figures } = await setUp();
  const first = begin();
  await promiseJobs();
  const second = await setUpOn(fleet);
  const third = await setUpOn(fleet);
  const runs = drainRuns(first.turn.tokens);
  const others = [drainRuns(second.turn.tokens), drainRuns(third.turn.tokens).catch((error: unknown) => error)];
  second.clock.ms += 90;
  third.abort.abort("gone");
  t.is(await others[1], "gone");
  await first.process.say("T 1 turn=1", `${doneLine(1, PROMPT_TOKENS)} turn=1`);
  await runs;
  await first.process.say(`${doneLine(0, PROMPT_TOKENS)} turn=2`);
  await others[0];
  clock.ms += 1;
  t.is((await figures()).value("lockgate:lock_wait_seconds_sum", R0), 0);
  t.is((await second.figures()).value("lockgate:lock_wait_seconds_sum", R0), 0.09);
  const left = await third.figures();
  t.is(left.value("lockgate:lock_wait_seconds_count", R0), 0);
  t.is(left.value("lockgate:drain_seconds_count", R0), 0);
  t.is(left.value("vllm:prompt_tokens_total", R0), 0);
  t.deepEqual(third.heldTokens, [0]);
});

/** A second request on a fleet that is busy. */
const setUpOn = async (fleet: Awaited<ReturnType<typeof startFleet>>) => {
  const registry = new Registry();
  const heldTokens = [0];
  const clock = { ms: 0 };
  const abort = new AbortController();
  const request = requestOf(PROMPT_TOKENS);
  const meter = meterRequest(createInstruments(registry, 1, "m"), heldTokens, 0, () => clock.ms);
  const turn = meter.open(openOwnedTurn)(fleet.pool.admit(request, abort.signal), request, abort.signal);
  return { clock, abort, turn, heldTokens, figures: async () => parseScrape(await registry.metrics()) };
};

test("an engine that is lost: its turn counts as poisoned, the error is the same one, and the next replica's wait is its own", async (t) => {
  const { begin, clock, figures, heldTokens } = await setUp(2);
  const lost = begin();
  const pulled = lost.turn.tokens.next();
  await promiseJobs();
  clock.ms += 100;
  await lost.process.exit({ code: null, signal: "SIGKILL" });
  const error = await t.throwsAsync(pulled, { instanceOf: EngineLost });
  await lost.turn.tokens.return();
  t.regex(error.message, /SIGKILL/);
  clock.ms += 30;
  const next = begin();
  t.is(next.admission.replica.index, 1);
  const runs = drainRuns(next.turn.tokens);
  await promiseJobs();
  await next.process.say("T 1 turn=2", `${doneLine(1, PROMPT_TOKENS)} turn=2`);
  await runs;
  const { value } = await figures();
  t.is(value("lockgate:poisoned_turns_total", R0), 1);
  t.is(value("lockgate:poisoned_turns_total", { replica: "1" }), 0);
  t.is(value("vllm:prompt_tokens_total", R0), 0, "no token, no DONE: what was read is not known");
  t.is(value("vllm:prompt_tokens_total", { replica: "1" }), PROMPT_TOKENS);
  t.is(value("lockgate:lock_wait_seconds_sum", { replica: "1" }), 0.03);
  t.deepEqual(heldTokens, [0, 0]);
});

test("a turn that was never pulled and is given back costs nothing", async (t) => {
  const { begin, figures, heldTokens, fleet } = await setUp();
  const { turn, process } = begin();
  await turn.tokens.return();
  const { value } = await figures();
  t.is(value("lockgate:drain_seconds_count", R0), 0);
  t.is(value("vllm:prompt_tokens_total", R0), 0);
  t.deepEqual(heldTokens, [0]);
  t.deepEqual(process.written, []);
  t.is(fleet.pool.inflight, 0);
});

test("failures are counted by code; a request that no replica took belongs to none", async (t) => {
  const { meter, figures } = await setUp();
  const told = { completionTokens: 0, statistics: null, turn: -1, replica: -1 };
  meter.ended({ ...told, kind: "failed", code: "overloaded", message: "", detail: "" });
  meter.ended({ ...told, kind: "aborted" });
  const { value } = await figures();
  t.is(value("lockgate:request_failures_total", { replica: "none", code: "overloaded" }), 1);
  t.is(value("lockgate:cancelled_turns_total", { replica: "none" }), 1);
  t.is(value("lockgate:cancelled_turns_total", R0), 0);
  const duration = "gen_ai_server_request_duration_seconds_count";
  t.is(value(duration, { ...CHAT, error_type: "overloaded" }), 1);
  t.is(value(duration, { ...CHAT, error_type: "client_gone" }), 1);
  t.is(value(duration, CHAT), 0, "none of them finished");
  t.is(value("gen_ai_server_time_to_first_token_seconds_count", CHAT), 0);
});
