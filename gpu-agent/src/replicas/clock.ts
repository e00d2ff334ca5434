/** Time as the replica code sees it, so that a test owns every timer. */
export interface Timer {
  cancel(): void;
}

export interface Clock {
  /** Monotonic, ms. */
  now(): number;
  after(ms: number, fire: () => void): Timer;
}

export const systemClock: Clock = {
  now: () => performance.now(),
  after: (ms, fire) => {
    const handle = setTimeout(fire, ms);
    return { cancel: () => clearTimeout(handle) };
  },
};
