/** What words of the command line stand for: limits, lists, times. Pure: the clock is passed in. */
import { InvalidArgumentError } from "commander";

const NONE = "none";

/** Stands for null: commander takes a null of a parser for a flag without its value. */
export const cleared = Symbol("none");
export type Cleared = typeof cleared;

/** A value of the command line as the API has it. */
export const apiValue = (value: unknown): unknown => (value === cleared ? null : value);

/** A whole number from `low` to `high`. */
export const wholeNumber =
  (low: number, high: number) =>
  (text: string): number => {
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= low && value <= high) return value;
    throw new InvalidArgumentError(`It must be a whole number from ${low} to ${high}.`);
  };

/** A limit, or `none`. */
export const limitOrNone = (text: string): number | Cleared =>
  text === NONE ? cleared : wholeNumber(1, 1_000_000_000_000)(text);

/** A weight, or `none` for the configuration's. */
export const weightOrNone = (text: string): number | Cleared => {
  if (text === NONE) return cleared;
  const value = Number(text);
  if (/^\d+(\.\d+)?$/.test(text) && value > 0 && value <= 1_000) return value;
  throw new InvalidArgumentError(`It must be a number above 0 and at most 1000, or ${NONE}.`);
};

/** Names with commas between them. */
export const nameList = (text: string): string[] => {
  const names = text.split(",").map((name) => name.trim());
  if (names.includes("")) throw new InvalidArgumentError("It must be names with commas between them.");
  return names;
};

/** Names with commas between them, or `all`. */
export const namesOrAll = (text: string): string[] | Cleared => (text === "all" ? cleared : nameList(text));

const unitS = { s: 1, m: 60, h: 3_600, d: 86_400 } as const;

const durationS = (text: string): number | undefined => {
  const [, count = "", unit = ""] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
  return count === "" ? undefined : Number(count) * unitS[unit as keyof typeof unitS];
};

/** `90s`, `15m`, `24h`, `7d`; 0 needs no unit. Returns seconds. */
export const duration = (text: string): number => {
  const seconds = text === "0" ? 0 : durationS(text);
  if (seconds === undefined) throw new InvalidArgumentError("It must be a time like 90s, 15m, 24h or 7d.");
  return seconds;
};

/** A time from now (`30d`), a day or an instant (ISO 8601, UTC without a zone), or `none`. Returns Unix ms. */
export const instantOrNone =
  (nowMs: number) =>
  (text: string): number | Cleared => {
    if (text === NONE) return cleared;
    const seconds = durationS(text);
    if (seconds !== undefined) return nowMs + seconds * 1000;
    const ms = /^\d{4}-\d{2}-\d{2}(T[\d:.]+(Z|[+-]\d{2}:\d{2}))?$/.test(text) ? Date.parse(text) : Number.NaN;
    if (Number.isNaN(ms))
      throw new InvalidArgumentError(`It must be a time like 30d, 2026-12-31, 2026-12-31T18:00:00Z or ${NONE}.`);
    return ms;
  };
