/** Small seeded random numbers, so that a sampled schedule is the same on every machine. Not for secrets. */

/** A stream of numbers in [0, 1), set by a seed and an index (mulberry32). */
export const randomStream = (seed: number, index: number): (() => number) => {
  let state = (Math.imul(seed, 0x9e3779b1) ^ Math.imul(index + 1, 0x85ebca6b)) >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
};

/** An index into weights, each chosen as often as its weight says. Weights are positive; there is at least one. */
export const pickWeighted = (weights: readonly number[], random: () => number): number => {
  let rest = random() * weights.reduce((sum, weight) => sum + weight, 0);
  for (const [index, weight] of weights.entries()) {
    rest -= weight;
    if (rest < 0) return index;
  }
  return weights.length - 1;
};
