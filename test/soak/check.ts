/** One closing check, with the figure that was wanted and the one that was found. Pure. */

export interface Check {
  readonly name: string;
  readonly ok: boolean;
  readonly wanted: string;
  readonly found: string;
  /** What differs, a few lines at most; empty where nothing does. */
  readonly details: readonly string[];
}

const MAX_DETAILS = 12;

/** `found` must be `wanted`, or at most `wanted` with `atMost`. */
export const countCheck = (
  name: string,
  found: number,
  wanted: number,
  details: readonly string[] = [],
  atMost = false,
): Check => {
  const ok = atMost ? found <= wanted : found === wanted;
  return {
    name,
    ok,
    wanted: atMost ? `at most ${wanted}` : String(wanted),
    found: String(found),
    details: ok ? [] : few(details),
  };
};

/** There must be none of these. */
export const noneCheck = (name: string, found: readonly string[]): Check => countCheck(name, found.length, 0, found);

/** The first ones; what comes several times comes once, with its count. */
const few = (all: readonly string[]): readonly string[] => {
  const counts = new Map<string, number>();
  for (const one of all) counts.set(one, (counts.get(one) ?? 0) + 1);
  const details = [...counts].map(([one, count]) => (count === 1 ? one : `${one} (${count} times)`));
  return details.length <= MAX_DETAILS
    ? details
    : [...details.slice(0, MAX_DETAILS), `and ${details.length - MAX_DETAILS} more`];
};
