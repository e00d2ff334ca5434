/**
 * Scheme B, offline: one object per request owns lease, iterator and result, and closes them once however often it is asked.
 * Same contracts as A, more plumbing; it runs in contracts and benchmark, not in serving.
 */
import type { DoneStatistics } from "@lockgate/shared-types";
import type { Lease } from "../replicas/lease-queue.ts";
import { generateNative } from "../replicas/native-turn.ts";
import {
  closeChild,
  type OpenTurn,
  type OwnedTurn,
  settleTurn,
  type TokenStream,
  takeLease,
} from "../replicas/owned-turn.ts";
import type { Admission } from "../replicas/pool.ts";
import type { EngineRequest } from "../replicas/wire.ts";

type Run = IteratorResult<readonly number[], void>;

class NativeTurn implements OwnedTurn, TokenStream {
  readonly tokens = this;
  readonly #admission: Admission;
  readonly #request: EngineRequest;
  readonly #signal: AbortSignal;
  readonly #answer: number[] = [];
  #lease: Lease | undefined;
  #child: ReturnType<typeof generateNative> | undefined;
  #own: DoneStatistics | null = null;
  #closed: Promise<void> | undefined;

  constructor(admission: Admission, request: EngineRequest, signal: AbortSignal) {
    this.#admission = admission;
    this.#request = request;
    this.#signal = signal;
  }

  statistics(): DoneStatistics | null {
    return this.#own;
  }

  async next(): Promise<Run> {
    if (this.#closed !== undefined) return { done: true, value: undefined };
    try {
      this.#child ??= await this.#begin();
      if (this.#child === undefined) return { done: true, value: undefined };
      const run = await this.#child.next();
      if (run.done) await this.#close(undefined);
      else for (const id of run.value) this.#answer.push(id);
      return run;
    } catch (error) {
      await this.#close(error);
      throw error;
    }
  }

  async return(): Promise<Run> {
    await this.#close(undefined);
    return { done: true, value: undefined };
  }

  async throw(error: unknown): Promise<Run> {
    await this.#close(error);
    throw error;
  }

  /** The child, or undefined when the turn was closed while it waited: the lease is `#settle`'s to give back then. */
  async #begin(): Promise<ReturnType<typeof generateNative> | undefined> {
    const { engine, turn } = this.#admission;
    const lease = await takeLease(this.#admission);
    if (this.#closed !== undefined) return undefined;
    this.#lease = lease;
    return generateNative({
      engine,
      slot: lease.slot,
      turn,
      request: this.#request,
      signal: this.#signal,
      onDone: (statistics) => {
        this.#own = statistics;
      },
    });
  }

  #close(earlier: unknown): Promise<void> {
    this.#closed ??= this.#settle(earlier);
    return this.#closed;
  }

  async #settle(earlier: unknown): Promise<void> {
    try {
      await closeChild(this.#child, earlier);
    } finally {
      settleTurn(this.#admission, this.#own?.finish, this.#answer);
      if (this.#lease === undefined) await this.#admission.abandon();
      else {
        const handed = this.#lease.release();
        if (handed !== undefined) await handed;
      }
    }
  }
}

export const openScopedTurn: OpenTurn = (admission, request, signal) => new NativeTurn(admission, request, signal);
