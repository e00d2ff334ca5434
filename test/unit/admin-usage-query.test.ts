import test from "ava";
import {
  MAX_SPAN_DAYS,
  planUsage,
  type UsageDimension,
  usageDimensions,
  usageQuerySchema,
} from "../../edge/src/admin/usage-query.ts";
import { dayOf, monthOf } from "../../edge/src/calendar.ts";
import { openAdminApi } from "../helpers/admin-api.ts";
import { type MemoryLedger, openMemoryLedger } from "../helpers/memory-ledger.ts";
import { pickSeed, seededRandom } from "../helpers/seeded-random.ts";

const nowMs = 1_800_000_000_000;
const DAY_MS = 86_400_000;

interface Turn extends Record<Exclude<UsageDimension, "month">, string> {
  readonly prompt: number;
  readonly completion: number;
}

const turnsOf = (random: () => number, count: number): Turn[] => {
  const pick = (...from: string[]): string => from[Math.floor(random() * from.length)] ?? "";
  return Array.from({ length: count }, () => ({
    day: dayOf(nowMs - Math.floor(random() * 70) * DAY_MS),
    key: pick("k1", "k2", ""),
    tenant: pick("acme", "b", ""),
    model: pick("atlas", "other"),
    agent: pick("gpu-1", "gpu-2"),
    prompt: Math.floor(random() * 100),
    completion: Math.floor(random() * 100),
  }));
};

const book = (memory: MemoryLedger, turns: readonly Turn[]): void => {
  for (const [at, turn] of turns.entries()) {
    memory.query(
      "INSERT INTO turns VALUES (?1, ?2, ?2, nullif(?3, ''), nullif(?4, ''), ?5, 0, 'finished', NULL, NULL, ?6, 0, ?7, 1, 2, ?8, substr(?8, 1, 7), NULL, 3) RETURNING 1",
      turn.agent,
      `t${at}`,
      turn.key,
      turn.tenant,
      turn.model,
      turn.prompt,
      turn.completion,
      turn.day,
    );
  }
};

const partOf = (turn: Turn, name: UsageDimension): string => (name === "month" ? turn.day.slice(0, 7) : turn[name]);

test("sums by any dimensions and filters, page by page, are those of the turns", async (t) => {
  const seed = pickSeed();
  t.log(`seed ${seed}`);
  const random = seededRandom(seed);
  const memory = openMemoryLedger();
  const turns = turnsOf(random, 200);
  book(memory, turns);
  for (let round = 0; round < 60; round += 1) {
    const names = usageDimensions.filter(() => random() < 0.4);
    const by: readonly UsageDimension[] = names.length === 0 ? ["agent"] : names;
    const [sample] = turnsOf(random, 1);
    const filters = Object.fromEntries(
      (["key", "tenant", "model", "agent"] as const)
        .filter(() => random() < 0.3)
        .map((name) => [name, sample?.[name] ?? ""]),
    );
    const from = dayOf(nowMs - Math.floor(random() * 70) * DAY_MS);
    const wanted = new Map<string, { turns: number; prompt_tokens: number; completion_tokens: number }>();
    for (const turn of turns) {
      if (turn.day < from || turn.day > dayOf(nowMs)) continue;
      if (Object.entries(filters).some(([name, value]) => partOf(turn, name as UsageDimension) !== value)) continue;
      const group = JSON.stringify(by.map((name) => partOf(turn, name)));
      const sum = wanted.get(group) ?? { turns: 0, prompt_tokens: 0, completion_tokens: 0 };
      sum.turns += 1;
      sum.prompt_tokens += turn.prompt;
      sum.completion_tokens += turn.completion;
      wanted.set(group, sum);
    }
    const seen = new Map<string, unknown>();
    let cursor: string | null = null;
    do {
      const query = { group_by: by.join(","), from, ...filters, limit: "7", ...(cursor === null ? {} : { cursor }) };
      const plan = planUsage(usageQuerySchema.parse(query), nowMs);
      if (!plan.ok) return t.fail(plan.message);
      const [result] = await memory.ledger([plan.statement]);
      const page = plan.page(result?.rows ?? []);
      t.true(page.data.length <= 7);
      for (const row of page.data) {
        const { turns: count, prompt_tokens, completion_tokens } = row;
        seen.set(JSON.stringify(by.map((name) => row[name])), { turns: count, prompt_tokens, completion_tokens });
      }
      cursor = page.next_cursor;
    } while (cursor !== null);
    t.deepEqual([...seen].sort(), [...wanted].sort(), JSON.stringify({ by, filters, from }));
  }
});

test("without a span the last 31 days are summed, today included", async (t) => {
  const memory = openMemoryLedger();
  const turn = { key: "k", tenant: "", model: "m", agent: "a", prompt: 1, completion: 0 };
  book(
    memory,
    [0, 30, 31].map((days) => ({ ...turn, day: dayOf(nowMs - days * DAY_MS) })),
  );
  const plan = planUsage(usageQuerySchema.parse({}), nowMs);
  if (!plan.ok) return t.fail(plan.message);
  const [result] = await memory.ledger([plan.statement]);
  t.deepEqual(
    plan.page(result?.rows ?? []).data.map(({ day }) => day),
    [dayOf(nowMs - 30 * DAY_MS), dayOf(nowMs)],
  );
});

test("the longest span is taken, a day more, an end before its beginning and what is no day are not", async (t) => {
  const api = await openAdminApi();
  const ask = async (from: string, to = dayOf(nowMs)) => (await api.ask("GET", `/usage?from=${from}&to=${to}`)).status;
  t.is(await ask(dayOf(nowMs - (MAX_SPAN_DAYS - 1) * DAY_MS)), 200);
  t.is(await ask(dayOf(nowMs - MAX_SPAN_DAYS * DAY_MS)), 400);
  t.is(await ask("2027-01-16", "2027-01-15"), 400);
  for (const day of ["2027-02-30", "2027-1-1", "yesterday", "2027-01-01T00:00:00Z", ""]) t.is(await ask(day), 400, day);
});

test("dimensions are refused that are unknown or named twice, and a cursor of another grouping", async (t) => {
  const api = await openAdminApi();
  for (const by of ["user", "day,day", "", "day;DROP TABLE turns"]) {
    t.is((await api.ask("GET", `/usage?group_by=${encodeURIComponent(by)}`)).status, 400, by);
  }
  book(
    api.memory,
    turnsOf(seededRandom(1), 50).map((turn) => ({ ...turn, day: dayOf(nowMs) })),
  );
  const { body } = await api.ask("GET", "/usage?group_by=key,model&limit=1");
  t.is((await api.ask("GET", `/usage?group_by=key&limit=1&cursor=${body.next_cursor}`)).status, 400);
  t.is((await api.ask("GET", `/usage?group_by=key,model&limit=1&cursor=${body.next_cursor}`)).status, 200);
});

test("a day and a month are UTC's, to the millisecond", (t) => {
  const newYear = Date.UTC(2027, 0, 1);
  t.deepEqual([dayOf(newYear - 1), monthOf(newYear - 1)], ["2026-12-31", "2026-12"]);
  t.deepEqual([dayOf(newYear), monthOf(newYear)], ["2027-01-01", "2027-01"]);
});
