/** A caller's callback as the addon may call it. */

/**
 * An exception of the callback must not unwind through the addon, nor be lost: it becomes an uncaught exception, as one
 * thrown by an event listener does.
 * @template {unknown[]} Args
 * @param {(...args: Args) => void} callback
 * @returns {(...args: Args) => void}
 */
export function detached(callback) {
  return (...args) => {
    try {
      callback(...args);
    } catch (error) {
      queueMicrotask(() => {
        throw error;
      });
    }
  };
}
