import test from "ava";
import { splitStatements } from "../../edge/local/apply-migrations.ts";
import { openMemoryLedger } from "../helpers/memory-ledger.ts";

test("statements are told apart by the semicolon at a line's end, comments and blank lines go", (t) => {
  t.deepEqual(splitStatements("-- a\nCREATE TABLE a (\n  b TEXT -- no; end\n);\n\nDROP TABLE a;\n"), [
    "CREATE TABLE a (\n  b TEXT -- no; end\n);",
    "DROP TABLE a;",
  ]);
  t.deepEqual(splitStatements(""), []);
});

test("a trigger is one statement, with all that stands between its BEGIN and END", (t) => {
  const trigger = "CREATE TRIGGER a AFTER INSERT ON b\nBEGIN\n  DELETE FROM c;\n  DELETE FROM d;\nEND;";
  t.deepEqual(splitStatements(`${trigger}\nDROP TABLE b;\n`), [trigger, "DROP TABLE b;"]);
});

test("a migration that breaks off is refused", (t) => {
  t.throws(() => splitStatements("CREATE TABLE a (b TEXT)"));
  t.throws(() => splitStatements("CREATE TRIGGER a AFTER INSERT ON b\nBEGIN\n  DELETE FROM c;\n"));
});

const turn = (id: string, outcome: string): string => `
INSERT INTO turns VALUES ('gpu-1', '${id}', 'req_1', 'k', NULL, 'atlas', 0, '${outcome}', NULL, NULL, 10, 4, 5, 1, 2, '2026-01-31', '2026-01', NULL, 3)`;

test("sums follow the turns that are booked, and not those that were booked before, however they are ignored", (t) => {
  const { query } = openMemoryLedger();
  query(`${turn("a.1", "finished")} RETURNING 1`);
  query(`${turn("a.2", "failed")} RETURNING 1`);
  query(`${turn("a.1", "aborted")} ON CONFLICT DO NOTHING RETURNING 1`);
  query(`${turn("a.1", "aborted").replace("INSERT", "INSERT OR IGNORE")} RETURNING 1`);
  t.deepEqual(
    query(
      "SELECT turns, failed_turns, aborted_turns, prompt_tokens, cached_tokens, completion_tokens FROM usage_daily",
    ),
    [{ turns: 2, failed_turns: 1, aborted_turns: 0, prompt_tokens: 20, cached_tokens: 8, completion_tokens: 10 }],
  );
  t.deepEqual(query("SELECT key_id, month, turns, tokens FROM usage_monthly"), [
    { key_id: "k", month: "2026-01", turns: 2, tokens: 30 },
  ]);
});

test("a key needs its tenant, and a state is one of three", (t) => {
  const { query } = openMemoryLedger();
  const key = (tenant: string, state: string) =>
    `INSERT INTO api_keys (key_id, tenant_id, name, state, scopes, created_at_ms, changed_at_ms) VALUES ('k', '${tenant}', 'n', '${state}', '[]', 1, 1) RETURNING 1`;
  t.throws(() => query(key("nobody", "active")), { message: /FOREIGN KEY/ });
  query("INSERT INTO tenants VALUES ('acme', 'Acme', 1, 1) RETURNING 1");
  t.throws(() => query(key("acme", "gone")), { message: /CHECK/ });
  t.notThrows(() => query(key("acme", "active")));
});
