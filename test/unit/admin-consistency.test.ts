import test from "ava";
import { compare, ledgerSideStatement, MAX_NAMED_REQUESTS, type ViewedKey } from "../../edge/src/admin/consistency.ts";
import { newDefinition, newEntry } from "../../edge/src/admin/key-definition.ts";
import { newKeySchema } from "../../edge/src/admin/key-schemas.ts";
import type { KeyGuardView, OpenRequest } from "../../edge/src/admit/key-guard-types.ts";
import { adminMonth, openAdminApi } from "../helpers/admin-api.ts";
import { type MemoryLedger, openMemoryLedger } from "../helpers/memory-ledger.ts";

const KEY = "0".repeat(32);
const definition = newDefinition(newKeySchema.parse({ tenant: "acme", name: "ci" }), KEY, "0".repeat(64));
const entry = { ...newEntry(definition, "ci", 1), state: "active" } as const;
const view: KeyGuardView = {
  definition,
  leases: 0,
  waiting: 0,
  month: "2027-01",
  monthTokens: 0,
  rateLimits: { requests: null, tokens: null },
  open: [],
};
const open = (requestId: string, leased = false): OpenRequest => ({
  requestId,
  startedAtMs: 1,
  estimatedTokens: 10,
  leased,
  agent: leased ? null : "gpu-1",
});

const book = (
  memory: MemoryLedger,
  request: string,
  change: { outcome?: string; tokens?: number; key?: string } = {},
) => {
  const { outcome = "finished", tokens = 10, key = KEY } = change;
  memory.query(
    "INSERT INTO turns VALUES ('gpu-1', ?1, ?2, ?3, NULL, 'm', 0, ?4, NULL, NULL, 0, 0, ?5, 1, 2, '2027-01-15', '2027-01', NULL, 3) RETURNING 1",
    `${request}.1`,
    request,
    key,
    outcome,
    tokens,
  );
};

const judge = async (memory: MemoryLedger, key: ViewedKey) => {
  const [result] = await memory.ledger([ledgerSideStatement([key])]);
  const [row] = compare([key], result?.rows ?? []);
  if (row === undefined) throw new Error("no row");
  return row;
};

test("a key on which ledger and guard agree has no difference", async (t) => {
  const memory = openMemoryLedger();
  book(memory, "req_1");
  const row = await judge(memory, {
    entry,
    view: { ...view, monthTokens: 10, leases: 1, open: [open("req_2", true)] },
  });
  t.deepEqual(row, {
    key_id: KEY,
    state: "active",
    month: "2027-01",
    ledger_month_tokens: 10,
    guard_month_tokens: 10,
    leases: 1,
    open_requests: 1,
    lost_requests: 0,
    differences: [],
  });
});

test("a month's sum that differs is a difference, and another month's is not", async (t) => {
  const memory = openMemoryLedger();
  book(memory, "req_1");
  t.deepEqual((await judge(memory, { entry, view })).differences, [{ what: "month_tokens", ledger: 10, guard: 0 }]);
  t.deepEqual((await judge(memory, { entry, view: { ...view, month: "2027-02" } })).differences, []);
});

test("a lease that no request holds is a difference", async (t) => {
  const row = await judge(openMemoryLedger(), { entry, view: { ...view, leases: 2, open: [open("req_1", true)] } });
  t.deepEqual(row.differences, [{ what: "leases", ledger: 1, guard: 2 }]);
});

test("a request that the guard waits for and the ledger has is a difference; one whose only turn failed before its first token is not", async (t) => {
  const memory = openMemoryLedger();
  book(memory, "req_1");
  book(memory, "req_2", { outcome: "failed", tokens: 0 });
  book(memory, "req_3", { key: "another" });
  const waits = { ...view, monthTokens: 10, open: ["req_1", "req_2", "req_3", "req_4"].map((id) => open(id)) };
  t.deepEqual((await judge(memory, { entry, view: waits })).differences, [
    { what: "open_but_booked", ledger: 1, guard: 4, requests: ["req_1"] },
  ]);
});

test("a difference names a bounded number of requests", async (t) => {
  const memory = openMemoryLedger();
  const ids = Array.from({ length: MAX_NAMED_REQUESTS + 1 }, (_, at) => `req_${at}`);
  for (const id of ids) book(memory, id, { tokens: 0 });
  const row = await judge(memory, { entry, view: { ...view, open: ids.map((id) => open(id)) } });
  t.is(row.differences[0]?.requests?.length, MAX_NAMED_REQUESTS);
  t.is(row.differences[0]?.ledger, ids.length);
});

test("a directory that says something else than the guard, and an active key that no guard knows, are differences", async (t) => {
  const memory = openMemoryLedger();
  const revoked = { ...view, definition: { ...definition, revokedAtMs: 5 } };
  t.deepEqual((await judge(memory, { entry, view: revoked })).differences, [
    { what: "definition", ledger: "active", guard: "revoked" },
  ]);
  t.deepEqual((await judge(memory, { entry, view: undefined })).differences, [
    { what: "definition", ledger: "active", guard: "unknown" },
  ]);
  t.deepEqual((await judge(memory, { entry: { ...entry, state: "pending" }, view: undefined })).differences, []);
});

test("lost requests are counted, and are no difference", async (t) => {
  const memory = openMemoryLedger();
  memory.query("INSERT INTO lost_requests VALUES ('req_1', ?1, 'gpu-1', 100, 1, 2) RETURNING 1", KEY);
  t.like(await judge(memory, { entry, view }), { lost_requests: 1, differences: [] });
});

test("all keys are compared page by page, one alone when asked for", async (t) => {
  const api = await openAdminApi();
  const first = await api.makeKey();
  await api.makeKey();
  api.guards.months.set(first.id, new Map([[adminMonth, 7]]));
  const { body } = await api.ask("GET", "/consistency?limit=1");
  t.is(body.data.length, 1);
  t.is((await api.ask("GET", `/consistency?limit=1&cursor=${body.next_cursor}`)).body.next_cursor, null);
  const one = await api.ask("GET", `/consistency?key=${first.id}`);
  t.deepEqual(one.body.data[0].differences, [{ what: "month_tokens", ledger: 0, guard: 7 }]);
});
