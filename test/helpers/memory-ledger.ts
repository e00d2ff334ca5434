/**
 * The ledger in memory: SQLite of this Node under the repository's own migrations, with transactions as D1 has them. For unit tests; the
 * integration tests have D1 itself.
 */
import { readdirSync, readFileSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { splitStatements } from "../../edge/local/apply-migrations.ts";
import type { Ledger, Statement } from "../../edge/src/usage/ledger.ts";

const migrations = new URL("../../edge/migrations/", import.meta.url);

export interface MemoryLedger {
  readonly ledger: Ledger;
  /** Rows of a query, as plain objects. */
  readonly query: (sql: string, ...values: (string | number | null)[]) => Record<string, unknown>[];
  /** Called before and after each transaction; what it throws is what the caller sees, "after" with the transaction kept. */
  fault: (when: "before" | "after") => void;
}

export const openMemoryLedger = (): MemoryLedger => {
  const database = new DatabaseSync(":memory:");
  for (const file of readdirSync(migrations).sort()) {
    for (const statement of splitStatements(readFileSync(new URL(file, migrations), "utf8"))) database.exec(statement);
  }
  const run = ({ sql, values }: Statement) => {
    const prepared = database.prepare(sql);
    // Numbered parameters are named ones to this SQLite.
    const named = Object.fromEntries(values.map((value, at) => [`?${at + 1}`, value]));
    const reads = /^\s*SELECT/i.test(sql);
    return reads
      ? { rows: prepared.all(named).map((row) => ({ ...row })), changes: 0 }
      : { rows: [], changes: Number(prepared.run(named).changes) };
  };
  const memory: MemoryLedger = {
    query: (sql, ...values) =>
      database
        .prepare(sql)
        .all(...values)
        .map((row) => ({ ...row })),
    fault: () => {},
    ledger: async (statements) => {
      memory.fault("before");
      database.exec("BEGIN");
      let results: ReturnType<typeof run>[];
      try {
        results = statements.map(run);
        database.exec("COMMIT");
      } catch (error) {
        database.exec("ROLLBACK");
        throw error;
      }
      memory.fault("after");
      return results;
    },
  };
  return memory;
};
