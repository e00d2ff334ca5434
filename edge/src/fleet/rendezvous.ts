/**
 * Weighted rendezvous hashing: every agent gets a score for a key, and the highest wins. Pure. When an agent comes or goes, only the keys
 * that it wins move (Thaler and Ravishankar 1998; the logarithmic weighting is the usual one, Schindelhauer and Schomaker 2005).
 *
 * The hash is quick and not secret: who chooses his keys can aim at an agent, and is stopped by the bound on its load.
 */

const mix = (hash: number): number => {
  let mixed = hash;
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
};

/** 32 bits of a text (FNV-1a over its UTF-16 units, then mixed). */
export const hashOf = (text: string, seed = 0): number => {
  let hash = (0x811c9dc5 ^ seed) >>> 0;
  for (let at = 0; at < text.length; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return mix(hash);
};

/** The score of one agent for a key that was hashed once; the shares of the keys that agents win are as their weights. */
export const rendezvousScore = (keyHash: number, name: string, weight: number): number => {
  const draw = (hashOf(name, keyHash) + 0.5) / 2 ** 32;
  return weight / -Math.log(draw);
};
