/**
 * Takers that find nothing but a lease in their way, in the order in which they came. Pure; `nowMs` is passed in.
 *
 * The wait bridges the moment between the end of a stream at the client and the release that follows it: a client that asks again at
 * once would else be refused by its own last request. It is no queue for load: that one is the agent's.
 */

/** How long one waits. */
export const TAKE_WAIT_MS = 250;
/** More are refused at once: a wait of this length could not serve them. */
export const MAX_WAITING_TAKERS = 64;

export class WaitingTakers<T> {
  readonly #takers: { readonly taker: T; readonly untilMs: number }[] = [];

  get count(): number {
    return this.#takers.length;
  }

  get first(): T | undefined {
    return this.#takers[0]?.taker;
  }

  /** When the first one has waited long enough; undefined without any. */
  get firstUntilMs(): number | undefined {
    return this.#takers[0]?.untilMs;
  }

  /** False, and nothing is kept, when every place is taken. */
  add(taker: T, nowMs: number): boolean {
    if (this.#takers.length >= MAX_WAITING_TAKERS) return false;
    this.#takers.push({ taker, untilMs: nowMs + TAKE_WAIT_MS });
    return true;
  }

  removeFirst(): void {
    this.#takers.shift();
  }

  /** Removes those that have waited long enough, and returns them. */
  expire(nowMs: number): T[] {
    const stillWaiting = this.#takers.findIndex(({ untilMs }) => untilMs > nowMs);
    return this.#takers.splice(0, stillWaiting === -1 ? this.#takers.length : stillWaiting).map(({ taker }) => taker);
  }
}
