/** Texts for people: byte sizes, counts, and columns that line up. Pure. */

const BINARY_UNITS = ["B", "KiB", "MiB", "GiB", "TiB"] as const;
const COUNT_UNITS = ["", "K", "M", "B", "T"] as const;

const scaled = (value: number, base: number, units: readonly string[], gap: string): string => {
  let unit = 0;
  let rest = value;
  while (rest >= base && unit < units.length - 1) {
    rest /= base;
    unit += 1;
  }
  const digits = unit === 0 || rest >= 100 ? 0 : 1;
  return `${rest.toFixed(digits)}${gap}${units[unit]}`.trimEnd();
};

/** Bytes, e.g. `2.9 MiB`. */
export const formatBytes = (bytes: number): string => scaled(bytes, 1024, BINARY_UNITS, " ");

/** A count, e.g. parameters: `2.9M`. */
export const formatCount = (count: number): string => scaled(count, 1000, COUNT_UNITS, "");

/** Rows as lines, each column as wide as its widest cell; no blanks at the end of a line. */
export const formatTable = (rows: ReadonlyArray<readonly string[]>): string[] => {
  const widths: number[] = [];
  for (const row of rows) {
    for (const [column, cell] of row.entries()) widths[column] = Math.max(widths[column] ?? 0, cell.length);
  }
  return rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd(),
  );
};
