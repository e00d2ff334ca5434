/**
 * The queue of one model: a bounded FIFO of turns that wait for the replica that suits them best. No turn is bound to a replica before one
 * is free for it, so a replica that dies or comes back changes where the queue goes, and loses nobody.
 *
 * Decisions are plan-dispatch.ts's; here are the waiting, its bound, its deadlines and its end. Ownership begins behind it, in the pool.
 */
import type { Clock, Timer } from "../replicas/clock.ts";
import { NoReplica, QueueFull, ReplicaError } from "../replicas/errors.ts";
import type { Admission, ReplicaPool } from "../replicas/pool.ts";
import { PrefixChain } from "../replicas/prefix-index.ts";
import type { Replica } from "../replicas/replica.ts";
import type { EngineRequest } from "../replicas/wire.ts";
import type { Pace } from "./pace.ts";
import { planDispatch } from "./plan-dispatch.ts";

/** Clients ignore a longer wait than this. */
const LONGEST_RETRY_MS = 60_000;
const SHORTEST_RETRY_MS = 1_000;

/** The turn cannot start before its deadline. */
export class DeadlineExceeded extends ReplicaError {
  readonly code = "DEADLINE_EXCEEDED";
}

/** A turn's place in the queue. */
export interface Ticket {
  /** The place on a replica when it comes. Rejects with the signal's reason, NoReplica or DeadlineExceeded. */
  readonly admission: Promise<Admission>;
  /** Turns ahead of it; 0 for the next one and for a turn that has its place. */
  ahead(): number;
  /** The replica that it was placed on; undefined while it waits. */
  replica(): number | undefined;
}

export interface EnterOptions {
  readonly signal: AbortSignal;
  /** On the queue's clock, ms; undefined: none. */
  readonly dueMs?: number | undefined;
  /** A turn that lost its replica goes before all others, whatever the bound. */
  readonly again?: boolean;
}

interface Waiter {
  readonly request: EngineRequest;
  readonly signal: AbortSignal;
  readonly blocks: PrefixChain;
  readonly place: PromiseWithResolvers<Admission>;
  /** Set once it is placed. */
  replica: number | undefined;
  readonly leave: () => void;
}

export class AdmissionQueue {
  readonly #pool: ReplicaPool;
  readonly #clock: Clock;
  readonly #pace: Pace;
  #maxWaiting: number;
  #waiters: Waiter[] = [];

  constructor(options: {
    readonly pool: ReplicaPool;
    readonly clock: Clock;
    readonly pace: Pace;
    readonly maxWaiting: number;
  }) {
    this.#pool = options.pool;
    this.#clock = options.clock;
    this.#pace = options.pace;
    this.#maxWaiting = options.maxWaiting;
  }

  get waiting(): number {
    return this.#waiters.length;
  }

  /** Changes the bound; who waits already stays. */
  set maxWaiting(maxWaiting: number) {
    this.#maxWaiting = maxWaiting;
  }

  /**
   * Enters a turn. Throws at once: NoReplica when none is alive, QueueFull when it would have to wait and every place is taken,
   * DeadlineExceeded when it is not likely to start in time.
   */
  enter(request: EngineRequest, { signal, dueMs, again = false }: EnterOptions): Ticket {
    this.#assertAlive();
    if (dueMs !== undefined) this.#assertInTime(dueMs);
    if (signal.aborted) return abandoned(signal.reason);
    const waiter = this.#makeWaiter(request, signal, dueMs);
    if (again) this.#waiters.unshift(waiter);
    else this.#waiters.push(waiter);
    this.dispatch();
    if (!again && this.#waiters.length > this.#maxWaiting && this.#waiters.includes(waiter)) {
      // It would rather wait for another replica, and may not: any that is free will do before it is refused.
      if (this.#placeAnywhere(waiter)) return this.#ticket(waiter);
      this.#remove(waiter);
      waiter.leave();
      throw new QueueFull(`all ${this.#maxWaiting} places in the queue are taken`);
    }
    return this.#ticket(waiter);
  }

  /** Places every turn that can go now. Called when a turn enters or ends and when a replica comes or goes. */
  dispatch(): void {
    if (this.#waiters.length === 0) return;
    const alive = this.#pool.replicas.filter((replica) => replica.engine?.usable);
    if (alive.length === 0) {
      const error = new NoReplica("no replica is left for the turns that wait");
      for (const waiter of this.#waiters.splice(0)) {
        waiter.leave();
        waiter.place.reject(error);
      }
      return;
    }
    const views = alive.map(({ index, engine, inflight, lastTurn }) => ({
      index,
      slots: engine?.leases.slots ?? 1,
      free: engine?.leases.free ?? 0,
      running: inflight,
      lastTurn,
    }));
    const turns = this.#waiters.map(({ request, blocks }) => ({
      rereadTokens: (replica: number) =>
        alive.length === 1 ? 0 : request.prompt.length - this.#pool.index.heldTokens(replica, blocks),
    }));
    const granted = planDispatch(turns, views).map(({ waiter, replica }) => [this.#waiters[waiter], replica] as const);
    for (const [waiter, index] of granted) {
      const replica = this.#pool.replicas[index];
      if (waiter !== undefined && replica !== undefined) this.#place(waiter, replica);
    }
  }

  /** Likely wait of a turn that enters now, ms; undefined before the first turn has ended. */
  waitMs(): number | undefined {
    const tokens = this.#waiters.reduce(
      (sum, { request }) => sum + this.#pace.expectedTokens(request.prompt.length, request.maxTokens),
      0,
    );
    return this.#pace.timeMs(tokens, this.#slots());
  }

  /** When a client that found the queue full should come again, ms; undefined before the first turn has ended. */
  retryAfterMs(): number | undefined {
    const waitMs = this.waitMs();
    return waitMs === undefined ? undefined : Math.min(LONGEST_RETRY_MS, Math.max(SHORTEST_RETRY_MS, waitMs));
  }

  #ticket(waiter: Waiter): Ticket {
    return {
      admission: waiter.place.promise,
      ahead: () => Math.max(0, this.#waiters.indexOf(waiter)),
      replica: () => waiter.replica,
    };
  }

  #makeWaiter(request: EngineRequest, signal: AbortSignal, dueMs: number | undefined): Waiter {
    const place = Promise.withResolvers<Admission>();
    place.promise.catch(() => {}); // told to whoever awaits the ticket; a request refused at once never does
    let timer: Timer | undefined;
    const giveUp = (error: unknown) => {
      this.#remove(waiter);
      waiter.leave();
      place.reject(error);
      this.dispatch(); // whoever stood behind it may go elsewhere now
    };
    const onAbort = () => giveUp(signal.reason);
    const waiter: Waiter = {
      request,
      signal,
      blocks: new PrefixChain(request.salt, request.prompt),
      place,
      replica: undefined,
      leave: () => {
        timer?.cancel();
        signal.removeEventListener("abort", onAbort);
      },
    };
    signal.addEventListener("abort", onAbort);
    if (dueMs !== undefined) {
      timer = this.#clock.after(dueMs - this.#clock.now(), () =>
        giveUp(new DeadlineExceeded("it could not start before its deadline")),
      );
    }
    return waiter;
  }

  #placeAnywhere(waiter: Waiter): boolean {
    const free = this.#pool.replicas.filter(({ engine }) => engine?.usable && engine.leases.free > 0);
    const replica = free.toSorted((a, b) => a.inflight - b.inflight)[0];
    if (replica === undefined) return false;
    this.#place(waiter, replica);
    return true;
  }

  #place(waiter: Waiter, replica: Replica): void {
    this.#remove(waiter);
    waiter.leave();
    waiter.replica = replica.index;
    try {
      waiter.place.resolve(this.#pool.admit(waiter.request, waiter.signal, { replica, blocks: waiter.blocks }));
    } catch (error) {
      waiter.place.reject(error);
    }
  }

  #remove(waiter: Waiter): void {
    this.#waiters = this.#waiters.filter((other) => other !== waiter);
  }

  #slots(): number {
    return this.#pool.replicas.reduce((sum, { engine }) => sum + (engine?.usable ? engine.leases.slots : 0), 0);
  }

  #assertAlive(): void {
    if (this.#pool.replicas.some((replica) => replica.engine?.usable)) return;
    throw new NoReplica(
      this.#pool.replicas.map(({ index, state, reason }) => `replica ${index} ${state} ${reason}`).join("; "),
    );
  }

  #assertInTime(dueMs: number): void {
    const leftMs = dueMs - this.#clock.now();
    const anyFree = this.#pool.replicas.some(({ engine }) => engine?.usable && engine.leases.free > 0);
    const waitMs = anyFree ? 0 : (this.waitMs() ?? 0);
    if (leftMs <= waitMs) {
      throw new DeadlineExceeded(
        `its deadline is in ${Math.round(leftMs)} ms, the queue takes about ${Math.round(waitMs)} ms`,
      );
    }
  }
}

const abandoned = (reason: unknown): Ticket => {
  const admission = Promise.reject(reason);
  admission.catch(() => {}); // as for a turn that is aborted while it waits
  return { admission, ahead: () => 0, replica: () => undefined };
};
