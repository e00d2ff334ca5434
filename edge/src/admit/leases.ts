/**
 * Which requests of a key are under way. Pure; `nowMs` is passed in.
 *
 * A lease ends when it is freed, or by itself: a worker that died frees nothing. It knows no limit; who takes one compares `count`.
 */

/** How long a lease lives unless it is renewed. */
export const LEASE_MS = 120_000;

export class Leases {
  /** Request id to Unix ms of its end. All live equally long, so the order of insertion is the order of the ends. */
  readonly #endsMs = new Map<string, number>();

  /** `stored`: request ids with the ends of their leases, in any order. */
  constructor(stored: readonly (readonly [requestId: string, endsMs: number])[] = []) {
    for (const [id, endsMs] of stored.toSorted(([, a], [, b]) => a - b)) this.#endsMs.set(id, endsMs);
  }

  get count(): number {
    return this.#endsMs.size;
  }

  /** When the first one ends unless it is renewed; undefined without any. */
  get firstEndMs(): number | undefined {
    return this.#endsMs.values().next().value;
  }

  endMs(requestId: string): number | undefined {
    return this.#endsMs.get(requestId);
  }

  /** Takes or prolongs one. */
  hold(requestId: string, nowMs: number): void {
    this.#endsMs.delete(requestId);
    this.#endsMs.set(requestId, nowMs + LEASE_MS);
  }

  /** Frees one; false if it was not held. */
  free(requestId: string): boolean {
    return this.#endsMs.delete(requestId);
  }

  /** Frees those that have ended, and returns them. */
  expire(nowMs: number): { readonly requestId: string; readonly endedAtMs: number }[] {
    const ended: { requestId: string; endedAtMs: number }[] = [];
    for (const [requestId, endedAtMs] of this.#endsMs) {
      if (endedAtMs > nowMs) break;
      this.#endsMs.delete(requestId);
      ended.push({ requestId, endedAtMs });
    }
    return ended;
  }
}
