/**
 * What each slot of an engine holds in its KV cache, as far as the agent knows: the tokens of its last turn. Used to give a turn the free
 * slot that saves most reading. One sequence a slot, bounded by the slot's context.
 */

export const commonPrefixLength = (a: ArrayLike<number>, b: ArrayLike<number>): number => {
  const bound = Math.min(a.length, b.length);
  let length = 0;
  while (length < bound && a[length] === b[length]) length++;
  return length;
};

interface SlotCache {
  readonly salt: string;
  readonly tokens: Int32Array;
}

export class SlotCaches {
  /** Insertion order is the order of use. */
  readonly #caches = new Map<number, SlotCache>();

  /** The free slot with the longest common prefix under the same salt; else an unused one, else the least recently used. */
  choose(free: readonly number[], salt: string, prompt: ArrayLike<number>): number {
    let best: number | undefined;
    let bestLength = 0;
    for (const slot of free) {
      const cache = this.#caches.get(slot);
      const length = cache?.salt === salt ? commonPrefixLength(cache.tokens, prompt) : 0;
      if (length > bestLength) {
        best = slot;
        bestLength = length;
      }
    }
    best ??=
      free.find((slot) => !this.#caches.has(slot)) ?? [...this.#caches.keys()].find((slot) => free.includes(slot));
    if (best === undefined) throw new Error("there is no free slot to choose from");
    return best;
  }

  /** The slot holds prompt and answer now. Returns the sequence. */
  note(slot: number, salt: string, prompt: ArrayLike<number>, answer: readonly number[]): Int32Array {
    const tokens = new Int32Array(prompt.length + answer.length);
    tokens.set(prompt, 0);
    tokens.set(answer, prompt.length);
    this.#caches.delete(slot);
    this.#caches.set(slot, { salt, tokens });
    return tokens;
  }

  clear(slot: number): void {
    this.#caches.delete(slot);
  }

  clearAll(): void {
    this.#caches.clear();
  }
}
