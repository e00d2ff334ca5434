/** What asks `npm start` to end: signals, and the end of the npm that runs it. */

/** How often a starter that npm runs looks whether npm is still there. */
const PARENT_CHECK_MS = 250;

/**
 * The first signal asks for an orderly end, the second does not wait for it. Under npm the end of the parent is such a signal: npm
 * passes SIGTERM on to a shell, which dies of it and tells nobody.
 */
export const watchSignals = (parent: number, onSecond: () => void): Promise<"signal"> => {
  const first = Promise.withResolvers<"signal">();
  let asked = false;
  const onSignal = (): void => {
    if (asked) onSecond();
    asked = true;
    first.resolve("signal");
  };
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, onSignal);
  if (process.env.npm_lifecycle_event !== undefined) {
    const timer = setInterval(() => {
      if (process.ppid === parent) return;
      clearInterval(timer);
      first.resolve("signal");
    }, PARENT_CHECK_MS);
    timer.unref();
  }
  return first.promise;
};
