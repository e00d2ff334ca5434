/**
 * Bounds a wait. It gives the wait up; it does not end the work.
 */

/** Settles as `work` does, or rejects with an error that names `what` after `timeoutMs`. */
export const withTimeout = async <T>(work: Promise<T>, timeoutMs: number, what: string): Promise<T> => {
  const timeout = Promise.withResolvers<never>();
  const timer = setTimeout(() => timeout.reject(new Error(`${what} took over ${timeoutMs} ms`)), timeoutMs);
  try {
    return await Promise.race([work, timeout.promise]);
  } finally {
    clearTimeout(timer);
  }
};
