/**
 * The lock of a replica: a FIFO queue for its leases. With one lease it is the run lock of an unbatched engine, with n the slots of a
 * batched one; the rules are the same.
 *
 * It knows nothing of engines. Releasing hands over in the same call, so all that belongs to a turn must be done before.
 */
import { QueueFull } from "./errors.ts";

export interface Lease {
  readonly slot: number;
  /**
   * Gives the slot to the first that waits, or frees it. Once; a second call throws, for a slot freed twice belongs to two turns.
   * Returns nothing in serving. With an armed hand-over (contracts only) a promise that settles when the successor has ended.
   */
  release(): Promise<void> | undefined;
}

/** Picks one of the free slots (never empty) for a taker; absent: the first. */
export type ChooseSlot = (free: readonly number[]) => number;

/**
 * Called after each release, with whether a successor got the slot; contracts arm it to force that one through before the predecessor
 * goes on.
 */
export type HandOver = (slot: number, hasSuccessor: boolean) => Promise<void> | undefined;

interface Waiter {
  readonly choose: ChooseSlot | undefined;
  readonly grant: (lease: Lease) => void;
  readonly refuse: (error: unknown) => void;
}

export class LeaseQueue {
  readonly slots: number;
  readonly #maxWaiting: number;
  readonly #handOver: HandOver | undefined;
  readonly #free: Set<number>;
  /** Insertion order is the queue's order; a waiter that aborts is deleted in O(1). */
  readonly #waiters = new Set<Waiter>();
  #closed: { readonly error: unknown } | undefined;

  constructor(slots: number, maxWaiting: number, handOver?: HandOver) {
    this.slots = slots;
    this.#maxWaiting = maxWaiting;
    this.#handOver = handOver;
    this.#free = new Set(Array.from({ length: slots }, (_, slot) => slot));
  }

  get free(): number {
    return this.#free.size;
  }

  get waiting(): number {
    return this.#waiters.size;
  }

  get held(): number {
    return this.slots - this.#free.size;
  }

  /** True once nothing new is admitted. */
  get closed(): boolean {
    return this.#closed !== undefined;
  }

  /**
   * A lease, at once when one is free, else in the order of the calls.
   * Throws QueueFull at once when every place is taken; rejects with the signal's reason on abort and with the closer's error on close.
   */
  acquire(signal: AbortSignal, choose?: ChooseSlot): Promise<Lease> {
    if (this.#closed !== undefined) return Promise.reject(this.#closed.error);
    if (signal.aborted) return Promise.reject(signal.reason);
    if (this.#free.size > 0) return Promise.resolve(this.#grant(this.#chooseFree(choose)));
    if (this.#waiters.size >= this.#maxWaiting) {
      throw new QueueFull(`all ${this.#maxWaiting} places in the queue are taken`);
    }
    return new Promise<Lease>((resolve, reject) => {
      const settle = () => {
        this.#waiters.delete(waiter);
        signal.removeEventListener("abort", onAbort);
      };
      const onAbort = () => {
        settle();
        reject(signal.reason);
      };
      const waiter: Waiter = {
        choose,
        grant: (lease) => {
          settle();
          resolve(lease);
        },
        refuse: (error) => {
          settle();
          reject(error);
        },
      };
      this.#waiters.add(waiter);
      signal.addEventListener("abort", onAbort);
    });
  }

  /** Refuses all who wait and all who come; leases that are out stay out until released. Idempotent. */
  close(error: unknown): void {
    this.#closed ??= { error };
    for (const waiter of [...this.#waiters]) waiter.refuse(error);
  }

  #chooseFree(choose: ChooseSlot | undefined): number {
    const free = [...this.#free];
    const slot = choose === undefined ? free[0] : choose(free);
    if (slot === undefined || !this.#free.has(slot)) throw new Error(`slot ${slot} was chosen, which is not free`);
    return slot;
  }

  #grant(slot: number): Lease {
    this.#free.delete(slot);
    let held = true;
    return {
      slot,
      release: () => {
        if (!held) throw new Error(`the lease of slot ${slot} was released twice`);
        held = false;
        this.#free.add(slot);
        const [next] = this.#waiters;
        if (next !== undefined) next.grant(this.#grant(this.#chooseFree(next.choose)));
        return this.#handOver?.(slot, next !== undefined);
      },
    };
  }
}
