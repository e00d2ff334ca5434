/**
 * Applies the SQL files of edge/migrations to a fresh local database, in the order of their names. A deployed one gets them from
 * `wrangler d1 migrations apply`, which also remembers which it had.
 */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

/** What is needed of a D1 database. */
export interface MigratedDatabase {
  prepare(sql: string): { run(): Promise<unknown> };
}

/** Statements end with a semicolon at the end of a line; a trigger's body is told by its BEGIN and END. */
export const splitStatements = (sql: string): string[] => {
  const statements: string[] = [];
  let lines: string[] = [];
  let inTrigger = false;
  for (const line of sql.split("\n")) {
    if (/^\s*(--.*)?$/.test(line)) continue;
    lines.push(line);
    if (/\bBEGIN\s*$/i.test(line)) inTrigger = true;
    if (/^\s*END;\s*$/i.test(line)) inTrigger = false;
    if (!inTrigger && /;\s*$/.test(line)) {
      statements.push(lines.join("\n"));
      lines = [];
    }
  }
  if (lines.length > 0) throw new Error("the last statement of a migration does not end");
  return statements;
};

export const applyMigrations = async (database: MigratedDatabase, directory: string): Promise<void> => {
  const files = (await readdir(directory)).filter((name) => name.endsWith(".sql")).sort();
  for (const file of files) {
    const sql = await readFile(join(directory, file), "utf8");
    for (const statement of splitStatements(sql)) await database.prepare(statement).run();
  }
};
