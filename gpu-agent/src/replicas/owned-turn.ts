/**
 * Scheme A, the serving default: the replica's lock covers the whole native turn. The child is closed and drained explicitly, its DONE
 * is copied to the caller, the books are balanced, and only then does the lease pass on.
 *
 * There is no `last`: the statistics are a field of this turn and of nothing else.
 */
import type { DoneStatistics, Finish } from "@lockgate/shared-types";
import { withCause } from "./errors.ts";
import type { Lease } from "./lease-queue.ts";
import { generateNative } from "./native-turn.ts";
import type { Admission } from "./pool.ts";
import type { EngineRequest } from "./wire.ts";

/** What a caller pulls runs of token ids from. */
export interface TokenStream {
  next(): Promise<IteratorResult<readonly number[], void>>;
  return(): Promise<IteratorResult<readonly number[], void>>;
  throw(error: unknown): Promise<IteratorResult<readonly number[], void>>;
}

/** One turn as its caller holds it. */
export interface OwnedTurn {
  /**
   * Runs of token ids. The first pull waits for the lease. However it ends (exhausted, return, throw), the turn was drained and its
   * lease passed on when that call settles. A turn that was never pulled must be returned too.
   */
  readonly tokens: TokenStream;
  /** This turn's own DONE; null while, or when, none was read. */
  statistics(): DoneStatistics | null;
}

/** How a scheme takes an admitted turn through its replica. */
export type OpenTurn = (admission: Admission, request: EngineRequest, signal: AbortSignal) => OwnedTurn;

export const openOwnedTurn: OpenTurn = (admission, request, signal) => {
  let own: DoneStatistics | null = null;

  async function* run(): AsyncGenerator<readonly number[], void, void> {
    const { engine, turn } = admission;
    const lease = await takeLease(admission);
    const answer: number[] = [];
    let child: ReturnType<typeof generateNative> | undefined;
    let earlier: unknown;
    try {
      child = generateNative({
        engine,
        slot: lease.slot,
        turn,
        request,
        signal,
        onDone: (statistics) => (own = statistics),
      });
      for (let run = await child.next(); !run.done; run = await child.next()) {
        for (const id of run.value) answer.push(id);
        yield run.value;
      }
    } catch (error) {
      earlier = error;
      throw error;
    } finally {
      try {
        await closeChild(child, earlier);
      } finally {
        settleTurn(admission, (own as DoneStatistics | null)?.finish, answer);
        const handed = lease.release();
        if (handed !== undefined) await handed;
      }
    }
  }

  const tokens = run();
  return { tokens: closeUnstarted(tokens, admission), statistics: () => own };
};

/** The lease of an admitted turn; one that never comes balances the books. */
export const takeLease = async (admission: Admission): Promise<Lease> => {
  try {
    return await admission.lease;
  } catch (error) {
    admission.settle(null);
    throw error;
  }
};

/** Balances the books of a turn that held its lease: what the cache holds now, or, after nonfinite, that it is not to be trusted. */
export const settleTurn = (admission: Admission, finish: Finish | undefined, answer: readonly number[]): void => {
  if (finish === "nonfinite") admission.forgetCache();
  admission.settle(finish === undefined || finish === "nonfinite" ? null : answer);
};

/** Closes and drains the child. Its error replaces an earlier one and keeps that as its cause. */
export const closeChild = async (
  child: ReturnType<typeof generateNative> | undefined,
  earlier: unknown,
): Promise<void> => {
  try {
    await child?.return();
  } catch (cleanup) {
    throw withCause(cleanup, earlier);
  }
};

/**
 * A generator that was never pulled runs no `finally`: `return` and `throw` on it would leave the lease in the queue. This makes the first
 * of them give the place back.
 */
export const closeUnstarted = (
  tokens: AsyncGenerator<readonly number[], void, void>,
  admission: Admission,
): TokenStream => {
  let started = false;
  const giveBack = async () => {
    if (started) return;
    started = true;
    admission.settle(null);
    await admission.abandon();
  };
  return {
    next: () => {
      started = true;
      return tokens.next();
    },
    return: async () => {
      await giveBack();
      return tokens.return();
    },
    throw: async (error) => {
      await giveBack();
      return tokens.throw(error);
    },
  };
};
