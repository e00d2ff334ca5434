/**
 * The processes that a benchmark starts, all of which end with it: each is asked to, and killed if it does not go. Knows nothing of what they
 * do. (Node 22 has no AsyncDisposableStack.)
 */
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";

/** From the request to end to SIGKILL. */
const STOP_TIMEOUT_MS = 20_000;

/** Rejects when the work takes longer. */
export const within = async <T>(work: Promise<T>, ms: number, what: string): Promise<T> => {
  const over = Promise.withResolvers<never>();
  const timer = setTimeout(() => over.reject(new Error(`${what} took over ${ms / 1000} s`)), ms);
  try {
    return await Promise.race([work, over.promise]);
  } finally {
    clearTimeout(timer);
  }
};

/** A process that ended, asked or not. */
export class ChildEnded extends Error {
  /** Null where a signal ended it. */
  readonly exitCode: number | null;

  constructor(what: string, exitCode: number | null) {
    super(`${what} ended (${exitCode === null ? "by a signal" : `exit code ${exitCode}`})`);
    this.exitCode = exitCode;
  }
}

export interface StartedChild<C extends ChildProcess> {
  readonly child: C;
  /** Rejects with ChildEnded. */
  readonly died: Promise<never>;
}

export class BenchChildren {
  readonly #enders: (() => Promise<void>)[] = [];
  #ending: Promise<void> | undefined;

  /** Starts a child that ends with the others: by `ask`, and if it does not go in time by SIGKILL. It is known before anybody can be interrupted. */
  start<C extends ChildProcess>(start: () => C, ask: (child: C) => void): StartedChild<C> {
    if (this.#ending !== undefined) throw new Error("the benchmark is ending");
    const child = start();
    const exited = once(child, "exit");
    this.#enders.push(async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      ask(child);
      const timer = setTimeout(() => child.kill("SIGKILL"), STOP_TIMEOUT_MS);
      await exited.catch(() => undefined);
      clearTimeout(timer);
    });
    const died = exited.then(([code]) =>
      Promise.reject(new ChildEnded(child.spawnargs[2] ?? "a child", code as number | null)),
    );
    died.catch(() => undefined); // an end that was asked for
    return { child, died };
  }

  /** Ends them all, the last one first; resolves when they are gone. Idempotent. */
  end(): Promise<void> {
    this.#ending ??= this.#endAll();
    return this.#ending;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.end();
  }

  async #endAll(): Promise<void> {
    for (const end of this.#enders.toReversed()) await end();
  }
}
