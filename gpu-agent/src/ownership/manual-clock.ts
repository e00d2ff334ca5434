/** A clock that stands still until it is told: timers fire when they are called for, so no contract ever waits. */
import type { Clock, Timer } from "../replicas/clock.ts";

export class ManualClock implements Clock {
  #nowMs = 0;
  readonly #timers = new Map<symbol, { readonly dueMs: number; readonly fire: () => void }>();

  get pending(): number {
    return this.#timers.size;
  }

  now(): number {
    return this.#nowMs;
  }

  after(ms: number, fire: () => void): Timer {
    const key = Symbol();
    this.#timers.set(key, { dueMs: this.#nowMs + ms, fire });
    return { cancel: () => void this.#timers.delete(key) };
  }

  /** Moves on to the earliest timer and fires it. False when there is none. */
  fireNext(): boolean {
    const [next] = [...this.#timers].sort(([, a], [, b]) => a.dueMs - b.dueMs);
    if (next === undefined) return false;
    const [key, timer] = next;
    this.#timers.delete(key);
    this.#nowMs = Math.max(this.#nowMs, timer.dueMs);
    timer.fire();
    return true;
  }
}
