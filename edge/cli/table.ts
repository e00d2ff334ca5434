/** Texts for people: columns that line up, times, and what stands for nothing. Pure. */

/** A cell for a value. */
export const cell = (value: unknown): string => {
  if (value === null || value === undefined || value === "") return "-";
  if (Array.isArray(value)) return value.length === 0 ? "-" : value.join(",");
  return String(value);
};

/** An instant to the second, UTC. */
export const instant = (ms: number | null): string =>
  ms === null ? "-" : `${new Date(ms).toISOString().slice(0, 19).replace("T", " ")}Z`;

/** Rows as lines, each column as wide as its widest cell; no blanks at the end of a line. */
export const table = (head: readonly string[], rows: ReadonlyArray<readonly unknown[]>): string => {
  const cells = [head, ...rows.map((row) => row.map(cell))];
  const widths = head.map((_, column) => Math.max(...cells.map((row) => row[column]?.length ?? 0)));
  return cells
    .map((row) =>
      row
        .map((text, column) => text.padEnd(widths[column] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
};

/** Names and values, one a line. */
export const facts = (pairs: ReadonlyArray<readonly [name: string, value: unknown]>): string => {
  const width = Math.max(...pairs.map(([name]) => name.length));
  return pairs.map(([name, value]) => `${name.padEnd(width)}  ${cell(value)}`).join("\n");
};
