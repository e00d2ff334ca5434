import { randomBytes } from "node:crypto";
import { MAX_USAGE_BATCH, turnIdOf, type UsageRecord } from "@lockgate/shared-types";
import test from "ava";
import { API_KEY_RANDOM_BYTES, isGenuineKeyId, mintApiKey } from "../../edge/src/admit/api-key-format.ts";
import { importSecret } from "../../edge/src/admit/secrets.ts";
import { bookingStatements, MAX_VALUE_BYTES, RECORDS_PER_STATEMENT } from "../../edge/src/usage/book-turns.ts";
import { takeUsage, type UsagePorts } from "../../edge/src/usage/take-usage.ts";
import { openMemoryLedger } from "../helpers/memory-ledger.ts";
import { createScriptedGuards } from "../helpers/scripted-guards.ts";
import { pickSeed, seededRandom } from "../helpers/seeded-random.ts";
import { recordNumber } from "../helpers/usage-records.ts";

const AGENT = "gpu-7";
/** In January 2027, as the records' times are. */
const nowMs = 1_800_000_001_000;
const month = "2027-01";

const bytesOf = (records: readonly unknown[], agent = AGENT): Uint8Array =>
  new TextEncoder().encode(JSON.stringify({ agent_id: agent, records }));

const openPorts = async () => {
  const memory = openMemoryLedger();
  const guards = createScriptedGuards(month);
  const secret = await importSecret("KEY_ID_SECRET", randomBytes(32).toString("base64url"));
  if (!secret.ok) throw new Error(secret.hint);
  const ports: UsagePorts = {
    ledger: memory.ledger,
    guardOf: guards.guardOf,
    isGenuineKeyId: (keyId) => isGenuineKeyId(secret.key, keyId),
  };
  const mint = async () => (await mintApiKey(secret.key, new Uint8Array(randomBytes(API_KEY_RANDOM_BYTES)))).keyId;
  return { memory, guards, ports, mint };
};

const rules: readonly [title: string, change: object, rule: RegExp][] = [
  ["a negative count", { prompt_tokens: -1 }, /^records\[1\]\.prompt_tokens: /],
  ["a count with a fraction", { completion_tokens: 0.5 }, /^records\[1\]\.completion_tokens: /],
  ["a count beyond what is exact", { completion_tokens: 2 ** 53 }, /^records\[1\]\.completion_tokens: /],
  ["a turn id of another request", { turn_id: "req_9.1" }, /^records\[1\]: turn_id is not its parts/],
  ["another agent's turn", { agent_id: "gpu-8" }, /^records\[1\]\.agent_id: must be the agent that signed/],
  ["an unknown outcome", { outcome: "lost" }, /^records\[1\]\.outcome: /],
  ["no model", { model: undefined }, /^records\[1\]\.model: /],
];

for (const [title, change, rule] of rules) {
  test(`${title} makes the batch malformed, the rule is named, nothing is booked`, async (t) => {
    const { memory, ports } = await openPorts();
    const verdict = await takeUsage(bytesOf([recordNumber(1), { ...recordNumber(2), ...change }]), AGENT, ports, nowMs);
    t.is(verdict.kind, "malformed");
    if (verdict.kind === "malformed") t.regex(verdict.rule, rule);
    t.deepEqual(memory.query("SELECT * FROM turns"), []);
  });
}

test("a batch in another agent's name, an empty one, one record too many and what is no JSON are malformed", async (t) => {
  const { ports } = await openPorts();
  const many = Array.from({ length: MAX_USAGE_BATCH + 1 }, (_, at) => recordNumber(at));
  for (const bytes of [
    bytesOf([recordNumber(1)], "gpu-8"),
    bytesOf([]),
    bytesOf(many),
    new TextEncoder().encode("{"),
    new Uint8Array([0x22, 0xff, 0x22]),
    new Uint8Array(0),
  ]) {
    t.is((await takeUsage(bytes, AGENT, ports, nowMs)).kind, "malformed");
  }
  t.is((await takeUsage(bytesOf(many.slice(1)), AGENT, ports, nowMs)).kind, "booked");
});

test("a turn is booked with all that its record says, and with the tenant of its key", async (t) => {
  const { memory, ports } = await openPorts();
  memory.query("INSERT INTO tenants VALUES ('acme', 'Acme', 1, 1) RETURNING 1");
  memory.query(
    "INSERT INTO api_keys (key_id, tenant_id, name, state, scopes, created_at_ms, changed_at_ms) VALUES ('k', 'acme', 'n', 'active', '[]', 1, 1) RETURNING 1",
  );
  const engine = {
    generated_tokens: 9,
    prompt_tokens: 20,
    prompt_read_tokens: 15,
    reused_tokens: 5,
    prompt_ms: 1.5,
    decode_ms: 2.5,
    finish: "cancel",
    drafts_accepted: 0,
    drafts_offered: 0,
  } as const;
  await takeUsage(
    bytesOf([
      { ...recordNumber(7), engine },
      { ...recordNumber(8), key_id: null },
    ]),
    AGENT,
    ports,
    nowMs,
  );
  const [first, second] = memory.query("SELECT * FROM turns ORDER BY turn_id");
  const { engine: _, ...record } = recordNumber(7);
  const { attempt: __, final: ___, ...columns } = record;
  t.deepEqual(first, {
    ...columns,
    tenant_id: "acme",
    day: "2027-01-15",
    month,
    engine: JSON.stringify(engine),
    booked_at_ms: nowMs,
  });
  t.like(second, { key_id: null, tenant_id: null, engine: null });
});

test("a turn of a clock that is ahead counts for the day on which it is booked", async (t) => {
  const { memory, ports } = await openPorts();
  for (const [at, endedAtMs] of [nowMs + 1, nowMs + 400 * 86_400_000, Number.MAX_SAFE_INTEGER].entries()) {
    const verdict = await takeUsage(bytesOf([{ ...recordNumber(at), ended_at_ms: endedAtMs }]), AGENT, ports, nowMs);
    t.is(verdict.kind, "booked");
  }
  t.deepEqual(memory.query("SELECT DISTINCT day, month FROM turns"), [{ day: "2027-01-15", month }]);
});

test("turns of two agents with one id are two turns", async (t) => {
  const { memory, ports } = await openPorts();
  await takeUsage(bytesOf([recordNumber(1)]), AGENT, ports, nowMs);
  await takeUsage(bytesOf([{ ...recordNumber(1), agent_id: "gpu-8" }], "gpu-8"), "gpu-8", ports, nowMs);
  t.is(memory.query("SELECT * FROM turns").length, 2);
});

test("a record takes its request off the list of lost ones", async (t) => {
  const { memory, ports } = await openPorts();
  for (const id of ["req_1", "req_2"]) {
    memory.query("INSERT INTO lost_requests VALUES (?, 'k', 'gpu-7', 100, 1, 2) RETURNING 1", id);
  }
  await takeUsage(bytesOf([recordNumber(1)]), AGENT, ports, nowMs);
  t.deepEqual(
    memory.query("SELECT request_id FROM lost_requests").map(({ request_id }) => request_id),
    ["req_2"],
  );
});

test("a guard is told of its turns and of the months' sums; an id that this edge did not make and no key name none", async (t) => {
  const { guards, ports, mint } = await openPorts();
  const [one, two] = [await mint(), await mint()];
  const december = 1_796_000_000_000;
  const records: UsageRecord[] = [
    { ...recordNumber(1), key_id: one },
    { ...recordNumber(2), key_id: two, outcome: "aborted", finish_reason: null },
    { ...recordNumber(3), key_id: one, ended_at_ms: december },
    { ...recordNumber(4), key_id: "invented" },
    { ...recordNumber(5), key_id: "f".repeat(32) },
    { ...recordNumber(6), key_id: null },
    { ...recordNumber(0), key_id: two, outcome: "failed", final: false, error_code: "overloaded", finish_reason: null },
  ];
  t.deepEqual(await takeUsage(bytesOf(records), AGENT, ports, nowMs), { kind: "booked", records: 7 });
  const byKey = Object.fromEntries(guards.settlements.map(({ keyId, settlement }) => [keyId, settlement]));
  t.deepEqual(Object.keys(byKey).sort(), [one, two].sort());
  t.deepEqual(byKey[one]?.monthTokens, { [month]: 21, "2026-11": 23 });
  t.deepEqual(
    byKey[two]?.turns.map(({ requestId, tokens, endsRequest }) => [requestId, tokens, endsRequest]),
    [
      ["req_2", 22, true],
      ["req_0", 20, false],
    ],
  );
});

test("no statement has more than the database takes, with the longest names of a whole batch", (t) => {
  const records = Array.from({ length: MAX_USAGE_BATCH }, (_, at): UsageRecord => {
    const request = `${"r".repeat(60)}${at}`.slice(-64);
    return { ...recordNumber(at), request_id: request, turn_id: turnIdOf(request, 1), model: "\u0001".repeat(4_096) };
  });
  const statements = bookingStatements(records, nowMs);
  t.is(statements.length, MAX_USAGE_BATCH / RECORDS_PER_STATEMENT + 1);
  for (const { values } of statements) t.true(String(values[0]).length < MAX_VALUE_BYTES);
});

test("with ledger or guard failing at the N-th call, before or after it did its part, each turn is booked once and budgets are exact", async (t) => {
  const seed = pickSeed();
  t.log(`seed ${seed}`);
  const random = seededRandom(seed);
  for (const when of ["before", "after"] as const) {
    for (let nth = 1; nth <= 12; nth += 1) {
      const { memory, guards, ports, mint } = await openPorts();
      const keys = [await mint(), await mint(), await mint()];
      let calls = 0;
      const fault = (at: "before" | "after"): void => {
        if (at === when && ++calls % nth === 0 && calls < 4 * nth) throw new Error("scripted fault");
      };
      memory.fault = fault;
      guards.fault = fault;
      const owed = new Map<string, number>();
      for (let batch = 0; batch < 4; batch += 1) {
        const records = Array.from({ length: 1 + Math.floor(random() * 6) }, (_, at) => {
          const key_id = keys[Math.floor(random() * keys.length)] ?? null;
          const record = { ...recordNumber(batch * 10 + at), key_id };
          if (key_id !== null) owed.set(key_id, (owed.get(key_id) ?? 0) + 20 + record.completion_tokens);
          return record;
        });
        // As the agent does: until it is told that all are booked.
        for (let tries = 0; ; tries += 1) {
          const verdict = await takeUsage(bytesOf(records), AGENT, ports, nowMs + tries);
          if (verdict.kind === "booked") break;
          t.is(verdict.kind, "failed");
          t.true(tries < 20);
        }
      }
      const told = new Map(keys.flatMap((key) => (owed.has(key) ? [[key, guards.months.get(key)?.get(month)]] : [])));
      t.deepEqual(new Map([...told].sort()), new Map([...owed].sort()), `${when} ${nth}`);
      const [sums] = memory.query(
        "SELECT sum(tokens) AS tokens, (SELECT sum(prompt_tokens + completion_tokens) FROM turns) AS turns, (SELECT sum(prompt_tokens + completion_tokens) FROM usage_daily) AS days FROM usage_monthly",
      );
      const all = [...owed.values()].reduce((sum, tokens) => sum + tokens, 0);
      t.deepEqual(sums, { tokens: all, turns: all, days: all }, `${when} ${nth}`);
    }
  }
});
