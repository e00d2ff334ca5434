/**
 * The replicas together: which one a turn goes to, its place in that replica's queue, and the books of what runs where.
 *
 * A turn comes in through `admit` and leaves through `settle`, once, on every path; between the two it counts as in flight.
 */
import { type Candidate, chooseReplica } from "./choose-replica.ts";
import type { Engine } from "./engine.ts";
import { NoReplica } from "./errors.ts";
import type { ChooseSlot, Lease } from "./lease-queue.ts";
import { PrefixChain, PrefixIndex } from "./prefix-index.ts";
import type { Replica } from "./replica.ts";
import { SlotCaches } from "./slot-caches.ts";
import type { EngineRequest } from "./wire.ts";

/** A turn's place on a replica, from the moment it is queued. */
export interface Admission {
  readonly turn: number;
  readonly replica: Replica;
  readonly engine: Engine;
  /** The lease when it comes; rejects with the signal's reason, or EngineLost when the engine ends first. */
  readonly lease: Promise<Lease>;
  /**
   * Balances the books, once; later calls do nothing. `answer` is what the engine's cache holds beyond the prompt; null when the turn
   * never ran or left the cache in doubt. Does not release the lease: that is the owner's, and comes after.
   */
  settle(answer: readonly number[] | null): void;
  /** Gives the place back without having run: the lease is passed on as soon as it is there. The books are settle's. */
  abandon(): Promise<void>;
  /** Forgets what the router knows of this replica's cache (nonfinite). */
  forgetCache(): void;
}

/** Where a turn goes when somebody has decided already, with the hashes of its prompt, which need not be made twice. */
export interface ChosenPlace {
  readonly replica: Replica;
  readonly blocks: PrefixChain;
}

export class ReplicaPool {
  readonly replicas: readonly Replica[];
  readonly index: PrefixIndex;
  readonly #slotCaches = new WeakMap<Engine, SlotCaches>();
  #turns = 0;

  constructor(replicas: readonly Replica[], index: PrefixIndex = new PrefixIndex()) {
    this.replicas = replicas;
    this.index = index;
  }

  /** Tokens that a slot of any replica holds: the smallest context among the usable ones; undefined while none is. */
  get contextTokens(): number | undefined {
    const contexts = this.replicas.flatMap(({ engine }) =>
      engine?.usable && engine.info ? [engine.info.maxContext] : [],
    );
    return contexts.length === 0 ? undefined : Math.min(...contexts);
  }

  /** Turns admitted and not settled, over all replicas. */
  get inflight(): number {
    return this.replicas.reduce((sum, replica) => sum + replica.inflight, 0);
  }

  /** Turns that wait for a lease. */
  get waiting(): number {
    return this.replicas.reduce((sum, replica) => sum + (replica.engine?.leases.waiting ?? 0), 0);
  }

  /**
   * Queues a turn at the replica where it costs least, or at the one that was chosen for it.
   * Throws NoReplica when none is alive and QueueFull when that replica's queue is full; nothing is counted then.
   */
  admit(request: EngineRequest, signal: AbortSignal, chosen?: ChosenPlace): Admission {
    const { replica, blocks } = chosen ?? this.#cheapest(request);
    const engine = replica?.engine;
    if (replica === undefined || engine === undefined) {
      throw new NoReplica(
        this.replicas.map(({ index, state, reason }) => `replica ${index} ${state} ${reason}`).join("; "),
      );
    }
    const caches = this.#cachesOf(engine);
    const choose: ChooseSlot = (free) => caches.choose(free, request.salt, request.prompt);
    const lease = engine.leases.acquire(signal, choose);
    lease.catch(() => {}); // awaited by the turn's owner; a turn given up before that must not be an unhandled rejection
    let slot: number | undefined;
    lease.then(
      (granted) => {
        slot = granted.slot;
        caches.clear(granted.slot);
      },
      () => {},
    );
    replica.inflight++;
    const turn = ++this.#turns;
    replica.lastTurn = turn;
    let open = true;
    return {
      turn,
      replica,
      engine,
      lease,
      settle: (answer) => {
        if (!open) return;
        open = false;
        replica.inflight--;
        replica.served++;
        if (answer === null || slot === undefined || !engine.usable) return;
        blocks.extend(caches.note(slot, request.salt, request.prompt, answer));
        this.index.note(replica.index, blocks);
      },
      abandon: () =>
        lease.then(
          (granted) => granted.release(),
          () => undefined,
        ),
      forgetCache: () => {
        this.index.forget(replica.index);
        caches.clearAll();
      },
    };
  }

  /** Ends all replicas; resolves when their processes are gone. */
  async stop(): Promise<void> {
    await Promise.all(this.replicas.map((replica) => replica.stop()));
  }

  #cheapest(request: EngineRequest): Partial<ChosenPlace> & Pick<ChosenPlace, "blocks"> {
    const blocks = new PrefixChain(request.salt, request.prompt);
    const index = chooseReplica(this.#candidates(request, blocks));
    const replica = index === null ? undefined : this.replicas[index];
    return replica === undefined ? { blocks } : { replica, blocks };
  }

  #candidates(request: EngineRequest, blocks: PrefixChain): Candidate[] {
    const usable = this.replicas.filter((replica) => replica.engine?.usable);
    return usable.map((replica) => ({
      index: replica.index,
      // Where there is no choice, hashing the prompt can wait until the turn is over.
      rereadTokens:
        usable.length === 1
          ? request.prompt.length
          : request.prompt.length - this.index.heldTokens(replica.index, blocks),
      load: replica.inflight / (replica.engine?.leases.slots ?? 1),
      lastTurn: replica.lastTurn,
    }));
  }

  #cachesOf(engine: Engine): SlotCaches {
    let caches = this.#slotCaches.get(engine);
    if (caches === undefined) {
      caches = new SlotCaches();
      this.#slotCaches.set(engine, caches);
    }
    return caches;
  }
}
