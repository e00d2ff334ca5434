/** Random numbers that a printed seed repeats (mulberry32). */
export const seededRandom = (seed: number): (() => number) => {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
};

/** A fresh seed, or the one named in LOCKGATE_SEED. */
export const pickSeed = (): number => Number(process.env.LOCKGATE_SEED ?? Math.floor(Math.random() * 2 ** 31));
