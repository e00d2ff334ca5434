import { heartbeatSchema, usageRecordSchema } from "@lockgate/shared-types";
import test from "ava";
import { NOWHERE, type TurnOutcome } from "../../gpu-agent/src/turn/run-turn.ts";
import { type AgentSource, heartbeatOf } from "../../gpu-agent/src/usage/heartbeat.ts";
import { usageConfigFault } from "../../gpu-agent/src/usage/open-usage.ts";
import { usageRecordOf } from "../../gpu-agent/src/usage/usage-record.ts";
import { doneStatistics } from "../helpers/done-statistics.ts";
import { recordNumber } from "../helpers/usage-records.ts";

const recordOf = (outcome: TurnOutcome, attempt = 1) =>
  usageRecordOf({
    request: { requestId: "req_1", keyId: "k", model: "atlas", promptTokens: 20 },
    agentId: "gpu-7",
    attempt,
    final: true,
    outcome,
    startedAtMs: 1_000,
    endedAtMs: 2_000,
  });

const where = { turn: 3, replica: 1 };
const failure = { kind: "failed", code: "overloaded", message: "m", detail: "d" } as const;

test("a finished turn owes for its prompt and what was consumed; the engine's count stands beside it", (t) => {
  const done = doneStatistics({});
  const record = recordOf({ ...where, kind: "finished", reason: "stop", completionTokens: 7, statistics: done });
  t.deepEqual(record, {
    turn_id: "req_1.1",
    request_id: "req_1",
    attempt: 1,
    key_id: "k",
    agent_id: "gpu-7",
    model: "atlas",
    replica: 1,
    final: true,
    outcome: "finished",
    finish_reason: "stop",
    error_code: null,
    prompt_tokens: 20,
    cached_tokens: 5,
    completion_tokens: 7,
    started_at_ms: 1_000,
    ended_at_ms: 2_000,
    engine: {
      generated_tokens: 9,
      prompt_tokens: 20,
      prompt_read_tokens: 15,
      reused_tokens: 5,
      prompt_ms: 3.5,
      decode_ms: 4.5,
      finish: "stop",
      drafts_accepted: 1,
      drafts_offered: 2,
    },
  });
});

const cases: readonly (readonly [what: string, outcome: TurnOutcome, owed: readonly [number, number, number]])[] = [
  [
    "finished by a stop string, its engine lost before DONE",
    { ...where, kind: "finished", reason: "stop", completionTokens: 4, statistics: null },
    [20, 0, 4],
  ],
  ["failed in its stream", { ...where, ...failure, completionTokens: 4, statistics: null }, [20, 0, 4]],
  [
    "failed before its first token, with no DONE",
    { ...where, ...failure, completionTokens: 0, statistics: null },
    [0, 0, 0],
  ],
  [
    "nonfinite before its first token",
    { ...where, ...failure, completionTokens: 0, statistics: doneStatistics({ finish: "nonfinite", generated: 0 }) },
    [0, 0, 0],
  ],
  [
    "left by its client in the stream",
    { ...where, kind: "aborted", completionTokens: 4, statistics: doneStatistics({ finish: "cancel" }) },
    [20, 5, 4],
  ],
  [
    "left by its client in the prefill",
    {
      ...where,
      kind: "aborted",
      completionTokens: 0,
      statistics: doneStatistics({ finish: "cancel", generated: 0, promptRead: 6 }),
    },
    [11, 5, 0],
  ],
  ["left by its client in the queue", { ...where, kind: "aborted", completionTokens: 0, statistics: null }, [0, 0, 0]],
];

for (const [what, outcome, owed] of cases) {
  test(`a turn ${what} owes ${owed[0]} prompt, ${owed[1]} cached and ${owed[2]} completion tokens`, (t) => {
    const record = recordOf(outcome);
    t.deepEqual([record.prompt_tokens, record.cached_tokens, record.completion_tokens], [...owed]);
    t.deepEqual(usageRecordSchema.parse(record), record);
  });
}

test("the attempt is part of the turn's id, and a record whose id is not its parts is none", (t) => {
  t.is(recordOf({ ...where, ...failure, completionTokens: 0, statistics: null }, 3).turn_id, "req_1.3");
  t.true(usageRecordSchema.safeParse(recordNumber(1)).success);
  for (const bad of [
    { turn_id: "req_1.2" },
    { cached_tokens: 21 },
    { completion_tokens: -1 },
    { prompt_tokens: 1.5 },
    { error_code: "no_such_code" },
    { key_id: "" },
  ]) {
    t.false(usageRecordSchema.safeParse({ ...recordNumber(1), ...bad }).success, JSON.stringify(bad));
  }
});

const replica = (
  index: number,
  state: string,
  engine?: { usable: boolean; leases: { slots: number; free: number } },
) => ({
  index,
  state,
  engine,
});
const usable = (free: number) => ({ usable: true, leases: { slots: 2, free } });
const agent = (extra: Partial<AgentSource>): AgentSource => ({
  replicas: [replica(0, "ready", usable(1)), replica(1, "poisoned", { usable: false, leases: { slots: 2, free: 2 } })],
  models: ["atlas"],
  inflight: () => 4,
  waiting: () => 3,
  tokensPerSecond: () => 61.26,
  draining: () => false,
  ...extra,
});
const room = { takesTurns: true, backlog: 6 };

test("a heartbeat tells replicas, load, speed and backlog; a replica that is lost has no free slot", (t) => {
  const heartbeat = heartbeatOf("gpu-7", agent({}), room, 1_234);
  t.deepEqual(heartbeat, {
    agent_id: "gpu-7",
    sent_at_ms: 1_234,
    state: "ready",
    models: ["atlas"],
    replicas: [
      { index: 0, state: "ready", slots: 2, free_slots: 1 },
      { index: 1, state: "poisoned", slots: 2, free_slots: 0 },
    ],
    inflight: 4,
    waiting: 3,
    free_slots: 1,
    tokens_per_second: 61.3,
    usage_backlog: 6,
  });
  t.deepEqual(heartbeatSchema.parse(heartbeat), heartbeat);
  t.is(heartbeatOf("gpu-7", agent({ tokensPerSecond: () => undefined }), room, 1).tokens_per_second, null);
});

test("an agent's state: draining before overloaded before ready; without a usable replica starting or unavailable", (t) => {
  const state = (extra: Partial<AgentSource>, takesTurns = true) =>
    heartbeatOf("gpu-7", agent(extra), { takesTurns, backlog: 0 }, 1).state;
  t.is(state({}), "ready");
  t.is(state({}, false), "overloaded");
  t.is(state({ draining: () => true }, false), "draining");
  t.is(state({ replicas: [replica(0, "starting")] }), "starting");
  t.is(state({ replicas: [replica(0, "poisoned")] }), "unavailable");
});

test("a spool needs an edge, an edge needs signing keys, and an agent's id is a plain word", (t) => {
  const signingKeys = new Map([["k", new Uint8Array(32)]]);
  const good = {
    edgeUrl: "https://edge.example",
    spoolDirectory: "/spool",
    agentId: "gpu-7",
    signingKeys,
    heartbeatIntervalMs: 1,
    maxSpooledRecords: 1,
  };
  t.is(usageConfigFault(good), undefined);
  t.is(usageConfigFault({ ...good, edgeUrl: undefined, spoolDirectory: undefined, signingKeys: new Map() }), undefined);
  t.regex(usageConfigFault({ ...good, edgeUrl: undefined }) ?? "", /--spool needs --edge-url/);
  t.regex(usageConfigFault({ ...good, signingKeys: new Map() }) ?? "", /--edge-url needs signing keys/);
  t.regex(usageConfigFault({ ...good, agentId: "gpu 7" }) ?? "", /--agent-id must be/);
});

test("a turn that never got a place names no replica and owes nothing", (t) => {
  const record = recordOf({ ...NOWHERE, kind: "aborted" });
  t.like(record, {
    replica: null,
    final: true,
    outcome: "aborted",
    prompt_tokens: 0,
    completion_tokens: 0,
    engine: null,
  });
  t.true(usageRecordSchema.safeParse(record).success);
  t.false(usageRecordSchema.safeParse({ ...record, final: false }).success);
});
