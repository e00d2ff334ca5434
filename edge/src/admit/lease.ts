/**
 * The worker's side of a request's lease: keeps the request alive until it has ended, and then tells the key's guard, once.
 *
 * A client that goes away ends its request early, but not this: all is done under waitUntil.
 */
import { causeOf } from "../cause-of.ts";
import { logError } from "../log.ts";
import { count } from "../metrics/count.ts";
import type { KeyGuardRpc, RequestEnd } from "./key-guard-types.ts";

/** Tries of a release. Without any the lease ends by itself (LEASE_MS). */
export const MAX_RELEASE_TRIES = 3;
/** Between them: an object that moves is back in about this time. */
const RELEASE_PAUSE_MS = 250;

/** What is needed of the platform's context. */
export interface Waits {
  waitUntil(work: Promise<unknown>): void;
}

/** Neither promise ever rejects. */
export interface Lease {
  /** The request still runs; to be told several times within LEASE_MS. */
  renew(): Promise<void>;
  /** The request has ended; `agent` has run it, or null if none has. Only the first call counts. */
  ended(agent: string | null): Promise<void>;
  /** The request was refused: there is nothing to free. */
  dismiss(): void;
}

export interface LeaseNeeds {
  readonly keyId: string;
  readonly requestId: string;
  readonly estimatedTokens: number;
  /** A fresh stub each: one that has failed once stays broken. */
  readonly guard: () => Pick<KeyGuardRpc, "renew" | "release">;
}

const release = async (needs: LeaseNeeds, end: RequestEnd): Promise<void> => {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await needs.guard().release(end);
      count("guard_calls_total", ["release", "ok"]);
      return;
    } catch (error) {
      count("guard_calls_total", ["release", "failed"]);
      const { keyId, requestId } = needs;
      logError("release_failed", { keyId, requestId, attempt, cause: causeOf(error) });
      if (attempt === MAX_RELEASE_TRIES) return;
      await new Promise((resolve) => setTimeout(resolve, RELEASE_PAUSE_MS * attempt));
    }
  }
};

/** Opens one for a request that was admitted, or may have been. */
export const openLease = (waits: Waits, needs: LeaseNeeds): Lease => {
  const { keyId, requestId, estimatedTokens } = needs;
  const end = Promise.withResolvers<RequestEnd | undefined>();
  const released = end.promise.then((told) => (told === undefined ? undefined : release(needs, told)));
  waits.waitUntil(released);
  return {
    async renew() {
      try {
        await needs.guard().renew({ requestId, estimatedTokens });
        count("guard_calls_total", ["renew", "ok"]);
      } catch (error) {
        count("guard_calls_total", ["renew", "failed"]);
        logError("renew_failed", { keyId, requestId, cause: causeOf(error) });
      }
    },
    ended(agent) {
      end.resolve({ requestId, agent });
      return released;
    },
    dismiss() {
      end.resolve(undefined);
    },
  };
};
