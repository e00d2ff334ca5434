/** A soak's report as text: the checks as a table, what differs, and the figures. Pure. */
import type { SoakReport } from "./run-soak.ts";

const counts = (title: string, of: Readonly<Record<string, number>>): string =>
  `${title}: ${Object.entries(of)
    .map(([name, count]) => `${name} ${count}`)
    .join(", ")}`;

/** Columns as wide as their widest cell. */
const tableOf = (rows: readonly (readonly string[])[]): string => {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((cells) => cells[column]?.length ?? 0)));
  return rows
    .map((cells) =>
      cells
        .map((cell, at) => cell.padEnd(widths[at] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
};

export const formatReport = (report: SoakReport): string => {
  const failed = report.checks.filter(({ ok }) => !ok);
  const table = tableOf([
    ["check", "wanted", "found", ""],
    ...report.checks.map(({ name, wanted, found, ok }) => [name, wanted, found, ok ? "ok" : "NOT OK"]),
  ]);
  const differences = failed.flatMap(({ name, details }) => [`${name}:`, ...details.map((detail) => `  ${detail}`)]);
  return [
    table,
    "",
    counts("clients", report.clients),
    counts("requests", report.outcomes),
    counts("faults", report.faults),
    counts("books", report.figures),
    "",
    ...(failed.length > 0 ? ["What differs:", ...differences, ""] : []),
    `${failed.length === 0 ? "All" : `${failed.length} of`} ${report.checks.length} checks ` +
      `${failed.length === 0 ? "passed" : "failed"}; seed ${report.seed}, ${report.seconds} s` +
      `${report.interrupted ? ", ended early" : ""}`,
  ].join("\n");
};
