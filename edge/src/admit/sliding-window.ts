/**
 * An exact sliding window over a minute: how much was taken in any 60 s never exceeds the limit. Pure; `nowMs` is passed in.
 *
 * Amounts lie in slots of 100 ms. A slot is forgotten when the newest instant that it can stand for is 60 s old, so the window errs
 * by at most one slot, and only to the strict side; a bucket that refills would let almost twice the limit through in one minute.
 * It serves requests and tokens alike and knows neither keys nor limits: the limit is passed in, since it may be changed at any time.
 */

export const WINDOW_MS = 60_000;
export const SLOT_MS = 100;
/** The slots of a minute, and the one that has only just begun. */
export const MAX_SLOTS = WINDOW_MS / SLOT_MS + 1;

/** As it is stored: [slot number, amount] in rising order. */
export type WindowSnapshot = readonly (readonly [slot: number, amount: number])[];

interface Slot {
  /** Unix time in units of SLOT_MS. */
  readonly number: number;
  amount: number;
}

export class SlidingWindow {
  /** In rising order; never more than MAX_SLOTS. */
  #slots: Slot[];
  #total: number;

  constructor(snapshot: WindowSnapshot = []) {
    this.#slots = snapshot.slice(-MAX_SLOTS).map(([number, amount]) => ({ number, amount }));
    this.#total = this.#slots.reduce((sum, { amount }) => sum + amount, 0);
  }

  /** What was taken in the last 60 s. */
  used(nowMs: number): number {
    this.#expire(nowMs);
    return this.#total;
  }

  /** Takes `amount` (not negative), whether it fits or not. Returns the slot that holds it, for adjust(). */
  take(amount: number, nowMs: number): number {
    this.#expire(nowMs);
    const newest = this.#slots.at(-1);
    // A clock that went back (an object that moved) must not free anything early: what comes then lies in the newest slot.
    const number = Math.max(Math.floor(nowMs / SLOT_MS), newest?.number ?? 0);
    if (newest?.number === number) newest.amount += amount;
    else this.#slots.push({ number, amount });
    this.#total += amount;
    return number;
  }

  /** Changes what was taken in a slot by `delta`; a slot that is forgotten stays so, and no slot falls below 0. */
  adjust(slot: number, delta: number, nowMs: number): void {
    this.#expire(nowMs);
    const held = this.#slots.find(({ number }) => number === slot);
    if (held === undefined) return;
    const amount = Math.max(0, held.amount + delta);
    this.#total += amount - held.amount;
    held.amount = amount;
  }

  /** ms until `amount` would fit under `limit`; 0 if it does now; undefined if it never will. */
  waitMs(amount: number, limit: number, nowMs: number): number | undefined {
    if (amount > limit) return undefined;
    let used = this.used(nowMs);
    for (const { number, amount: freed } of this.#slots) {
      if (used + amount <= limit) break;
      used -= freed;
      if (used + amount <= limit) return expiresAtMs(number) - nowMs;
    }
    return 0;
  }

  /** ms until nothing is taken any more. */
  resetMs(nowMs: number): number {
    this.#expire(nowMs);
    const newest = this.#slots.findLast(({ amount }) => amount > 0);
    return newest === undefined ? 0 : expiresAtMs(newest.number) - nowMs;
  }

  snapshot(): WindowSnapshot {
    return this.#slots.map(({ number, amount }) => [number, amount]);
  }

  #expire(nowMs: number): void {
    let expired = 0;
    for (const { number, amount } of this.#slots) {
      if (expiresAtMs(number) > nowMs) break;
      expired += 1;
      this.#total -= amount;
    }
    if (expired > 0) this.#slots = this.#slots.slice(expired);
  }
}

const expiresAtMs = (slot: number): number => (slot + 1) * SLOT_MS + WINDOW_MS;
