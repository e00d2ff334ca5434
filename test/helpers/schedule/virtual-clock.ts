/**
 * Time that moves only when the scheduler says so: a timer that fires takes the clock to its due time. Timers fire in the order of their
 * due times, as real ones do; there is no way to fire a later one first.
 */
import type { Clock, Timer } from "../../../gpu-agent/src/replicas/clock.ts";

interface Armed {
  readonly dueMs: number;
  readonly fire: () => void;
}

export class VirtualClock implements Clock {
  #nowMs = 0;
  readonly #armed = new Set<Armed>();

  now(): number {
    return this.#nowMs;
  }

  /** Timers that are armed and neither fired nor cancelled. */
  get armed(): number {
    return this.#armed.size;
  }

  after(ms: number, fire: () => void): Timer {
    const timer: Armed = { dueMs: this.#nowMs + Math.max(0, ms), fire };
    this.#armed.add(timer);
    return { cancel: () => void this.#armed.delete(timer) };
  }

  /** Fires the timer that is due first (of equal ones the oldest); returns how far the clock moved, ms. */
  fireNext(): number {
    let next: Armed | undefined;
    for (const timer of this.#armed) if (next === undefined || timer.dueMs < next.dueMs) next = timer;
    if (next === undefined) throw new Error("no timer is armed");
    const movedMs = Math.max(0, next.dueMs - this.#nowMs);
    this.#nowMs += movedMs;
    this.#armed.delete(next);
    next.fire();
    return movedMs;
  }

  /** How long each armed timer still has, ms, in order; part of what tells two states apart. */
  remainingMs(): number[] {
    return [...this.#armed].map(({ dueMs }) => dueMs - this.#nowMs).sort((a, b) => a - b);
  }
}
