/**
 * The database as everything here uses it: a list of statements that happen together or not at all. Types and one adapter.
 *
 * One narrow door keeps SQL testable against any SQLite, and failures at the N-th call easy to provoke. No retry: who asked knows what a
 * repetition would mean.
 */

export type SqlValue = string | number | null;

export interface Statement {
  readonly sql: string;
  /** Bound to ?1, ?2, … */
  readonly values: readonly SqlValue[];
}

export interface StatementResult {
  /** Plain objects by column name; whoever reads them parses them. */
  readonly rows: readonly unknown[];
  /** Rows that the statement changed. Of a table with triggers D1 counts theirs as well, other databases do not. */
  readonly changes: number;
}

/** Runs the statements in order in one transaction; one result for each. Rejects, having changed nothing, if one fails. */
export type Ledger = (statements: readonly Statement[]) => Promise<readonly StatementResult[]>;

/** What is needed of a D1 database. */
export interface BatchDatabase<Prepared> {
  prepare(sql: string): { bind(...values: SqlValue[]): Prepared };
  batch(
    statements: Prepared[],
  ): Promise<readonly { readonly results: readonly unknown[]; readonly meta: { readonly changes?: number } }[]>;
}

/** The ledger over a D1 database, whose batches are transactions. */
export const ledgerOf =
  <Prepared>(database: BatchDatabase<Prepared>): Ledger =>
  async (statements) => {
    const results = await database.batch(statements.map(({ sql, values }) => database.prepare(sql).bind(...values)));
    return results.map(({ results: rows, meta }) => ({ rows, changes: meta.changes ?? 0 }));
  };

/** The results of one statement alone. */
export const runOne = async (ledger: Ledger, statement: Statement): Promise<StatementResult> => {
  const [result] = await ledger([statement]);
  if (result === undefined) throw new Error("the database gave no result");
  return result;
};
