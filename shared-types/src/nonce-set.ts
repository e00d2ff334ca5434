/**
 * Remembers the nonces of accepted signatures, so that a recorded request cannot be sent again.
 *
 * Pure memory: no clock (`nowMs` is passed in), no persistence. What a restart forgets is covered by the verifier, which takes
 * no signature older than the process.
 */

/** At 120 s of memory this carries about 830 requests a second, at some 100 bytes each. */
export const MAX_NONCES = 100_000;

export type NonceVerdict = "taken" | "replayed" | "full";

export interface NonceSet {
  /** Takes a nonce once. `full` means that nothing was forgotten to make room: forgetting would let a replay through. */
  take(nonce: string, nowMs: number): NonceVerdict;
  /** How many are remembered. */
  readonly size: number;
}

/**
 * `retentionMs` must be at least as long as a signature can stay acceptable after it was first seen.
 */
export const createNonceSet = (retentionMs: number, capacity: number = MAX_NONCES): NonceSet => {
  const taken = new Set<string>();
  /** The same nonces in the order in which they may be forgotten: one retention for all, so that is the order in which they came. */
  let expiries: { readonly nonce: string; readonly forgetAtMs: number }[] = [];
  let head = 0;

  const dropExpired = (nowMs: number): void => {
    for (let oldest = expiries[head]; oldest !== undefined && oldest.forgetAtMs <= nowMs; oldest = expiries[head]) {
      taken.delete(oldest.nonce);
      head += 1;
    }
    // Cut off what is forgotten once it is half of the list: each entry is moved once on average.
    if (head * 2 > expiries.length) {
      expiries = expiries.slice(head);
      head = 0;
    }
  };

  return {
    take(nonce, nowMs) {
      dropExpired(nowMs);
      if (taken.has(nonce)) return "replayed";
      if (taken.size >= capacity) return "full";
      taken.add(nonce);
      expiries.push({ nonce, forgetAtMs: nowMs + retentionMs });
      return "taken";
    },
    get size() {
      return taken.size;
    },
  };
};
