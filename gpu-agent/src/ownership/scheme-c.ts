/**
 * Scheme C, offline: one owner per engine alone writes to and reads from its pipe; requests reach it through a bounded mailbox, tokens
 * leave through a bounded channel per request, and a full channel holds the pipe back. On a batched engine the owner has a hand a slot.
 *
 * Same contracts as A at the price of a hand-over per run of tokens; it runs in contracts and benchmark, not in serving.
 */
import type { DoneStatistics } from "@lockgate/shared-types";
import type { Engine } from "../replicas/engine.ts";
import { QueueFull, withCause } from "../replicas/errors.ts";
import { generateNative } from "../replicas/native-turn.ts";
import { closeChild, type OpenTurn, settleTurn, type TokenStream, takeLease } from "../replicas/owned-turn.ts";
import type { Admission } from "../replicas/pool.ts";
import type { EngineRequest } from "../replicas/wire.ts";
import { Channel } from "./channel.ts";

/** Tokens that wait for one caller. */
export const CHANNEL_TOKENS = 32;
/** Requests that wait for one owner. */
export const MAILBOX_REQUESTS = 8;

interface Job {
  readonly admission: Admission;
  readonly request: EngineRequest;
  readonly signal: AbortSignal;
  readonly channel: Channel;
  /** Ends the native turn early: the caller's signal, or the caller's close, which must reach a read of the pipe that is pending. */
  readonly stop: AbortController;
  readonly onDone: (statistics: DoneStatistics) => void;
  /** Settles when the owner has done with the job: drained, books balanced, lease passed on. */
  readonly finished: PromiseWithResolvers<void>;
  /** Its lease came. Until then its error is the one that all who wait are refused with, and is not this turn's to change. */
  leased: boolean;
  /** What an armed hand-over left for the caller to await; the owner itself must go on to the successor. */
  handed: Promise<void> | undefined;
}

class Owner {
  readonly #slots: number;
  readonly #mailbox: Job[] = [];
  #working = 0;

  constructor(slots: number) {
    this.#slots = slots;
  }

  post(job: Job): void {
    if (this.#mailbox.length >= MAILBOX_REQUESTS)
      throw new QueueFull(`all ${MAILBOX_REQUESTS} places of the owner are taken`);
    this.#mailbox.push(job);
    const onAbort = () => {
      job.stop.abort(job.signal.reason);
      void this.#drop(job);
    };
    job.signal.addEventListener("abort", onAbort);
    const forget = () => job.signal.removeEventListener("abort", onAbort);
    job.finished.promise.then(forget, forget);
    if (this.#working < this.#slots) void this.#work();
  }

  /** Takes a job that still waits out of the mailbox; a running one is left to its owner. */
  async #drop(job: Job): Promise<void> {
    const at = this.#mailbox.indexOf(job);
    if (at === -1) return;
    this.#mailbox.splice(at, 1);
    job.admission.settle(null);
    await job.admission.abandon();
    job.finished.reject(job.signal.reason);
    job.channel.end();
  }

  async #work(): Promise<void> {
    this.#working++;
    for (let job = this.#mailbox.shift(); job !== undefined; job = this.#mailbox.shift()) {
      try {
        await this.#run(job);
        job.finished.resolve();
      } catch (error) {
        job.finished.reject(error);
      }
      job.channel.end();
    }
    this.#working--;
  }

  async #run(job: Job): Promise<void> {
    const { admission, request, channel } = job;
    const { signal } = job.stop;
    const { engine, turn } = admission;
    const lease = await takeLease(admission);
    job.leased = true;
    const answer: number[] = [];
    let own: DoneStatistics | undefined;
    let earlier: unknown;
    const onDone = (statistics: DoneStatistics) => {
      own = statistics;
      job.onDone(statistics);
    };
    const child = channel.closed
      ? undefined
      : generateNative({ engine, slot: lease.slot, turn, request, signal, onDone });
    try {
      for (
        let run = await child?.next();
        run !== undefined && !run.done && !channel.closed;
        run = await child?.next()
      ) {
        for (const id of run.value) {
          if (channel.full) await roomIn(channel, engine, lease.slot);
          if (channel.closed) break;
          answer.push(id);
          channel.put(id);
        }
      }
    } catch (error) {
      earlier = error;
      throw error;
    } finally {
      try {
        await closeChild(child, earlier);
      } finally {
        settleTurn(admission, own?.finish, answer);
        job.handed = lease.release();
      }
    }
  }
}

/** Waits for the caller. An unbatched pipe is held back meanwhile; a batched one carries the neighbours' lines and is not. */
const roomIn = async (channel: Channel, engine: Engine, slot: number): Promise<void> => {
  if (engine.lanes.length > 1) return channel.room();
  engine.process.pause();
  await channel.room();
  engine.process.resume();
  // The engine was not silent: nobody listened to it.
  engine.lane(slot).lastLineMs = engine.clock.now();
};

/** A fresh set of owners, one per engine. */
export const createOwners = (): OpenTurn => {
  const owners = new WeakMap<Engine, Owner>();
  const ownerOf = (engine: Engine): Owner => {
    const owner = owners.get(engine) ?? new Owner(engine.leases.slots);
    owners.set(engine, owner);
    return owner;
  };
  return (admission, request, signal) => {
    let own: DoneStatistics | null = null;
    const channel = new Channel(CHANNEL_TOKENS);
    const finished = Promise.withResolvers<void>();
    finished.promise.catch(() => {}); // told to the caller through the channel or `return`
    const job: Job = {
      admission,
      request,
      signal,
      channel,
      stop: new AbortController(),
      finished,
      leased: false,
      handed: undefined,
      onDone: (statistics) => {
        own = statistics;
      },
    };
    let over = false;
    let refused: { readonly error: unknown } | undefined;
    try {
      // At once, so that the mailbox has the order of the lock's queue.
      ownerOf(admission.engine).post(job);
    } catch (error) {
      refused = { error };
    }

    /** Waits until the owner has done with the job. An error is told to whoever ends the turn, once. */
    const finish = async () => {
      if (over) return;
      over = true;
      if (refused !== undefined) {
        admission.settle(null);
        await admission.abandon();
        throw refused.error;
      }
      channel.close();
      job.stop.abort();
      await finished.promise;
      if (job.handed !== undefined) await job.handed;
    };

    const tokens: TokenStream = {
      next: async () => {
        if (over) return { done: true, value: undefined };
        const run = refused === undefined ? await channel.take() : null;
        if (run !== null) return { done: false, value: run };
        await finish();
        return { done: true, value: undefined };
      },
      return: async () => {
        await finish();
        return { done: true, value: undefined };
      },
      throw: async (error) => {
        try {
          await finish();
        } catch (cleanup) {
          throw job.leased ? withCause(cleanup, error) : error;
        }
        throw error;
      },
    };
    return { tokens, statistics: () => own };
  };
};
