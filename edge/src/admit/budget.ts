/**
 * The tokens that a key has used in each month (UTC). Pure; `nowMs` is passed in.
 *
 * Sums come from the ledger and are absolute, so telling one twice changes nothing, and one that comes late never lowers it. It keeps
 * no reservations and no limit.
 */
import { monthOf } from "../calendar.ts";

/** The current month, those beside it: a record can come late, and clocks differ at the turn of a month. */
export const MAX_MONTHS = 3;

const indexOf = (month: string): number => Number(month.slice(0, 4)) * 12 + Number(month.slice(5, 7));

/** Month to tokens; as it is stored. */
export type MonthTokens = Readonly<Record<string, number>>;

export class Budget {
  readonly #tokens: Map<string, number>;

  constructor(stored: MonthTokens = {}) {
    this.#tokens = new Map(Object.entries(stored));
  }

  /** Tokens of the month of `nowMs`. */
  used(nowMs: number): number {
    return this.#tokens.get(monthOf(nowMs)) ?? 0;
  }

  /** Takes sums over. Returns whether any was news; a month that is not next to the present one never is. */
  learn(sums: MonthTokens, nowMs: number): boolean {
    const present = indexOf(monthOf(nowMs));
    let changed = false;
    for (const [month, tokens] of Object.entries(sums)) {
      if (!(Math.abs(indexOf(month) - present) <= 1) || tokens <= (this.#tokens.get(month) ?? 0)) continue;
      this.#tokens.set(month, tokens);
      changed = true;
    }
    for (const month of this.#tokens.keys()) if (Math.abs(indexOf(month) - present) > 1) this.#tokens.delete(month);
    return changed;
  }

  stored(): MonthTokens {
    return Object.fromEntries(this.#tokens);
  }
}
