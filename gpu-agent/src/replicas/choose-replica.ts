/** Which replica a turn goes to: a pure decision over what is known of each. */

/** What a full replica's turn weighs, in prompt tokens to read. */
export const LOAD_TOKENS = 3000;

export interface Candidate {
  readonly index: number;
  /** Prompt tokens the replica would have to read again. */
  readonly rereadTokens: number;
  /** Turns that run or wait there, divided by its slots. */
  readonly load: number;
  /** Number of the turn that it took last, 0 for none. Not how many it took: one that was away for a while would then win every tie. */
  readonly lastTurn: number;
}

/** Cost in prompt tokens. */
export const replicaCost = (candidate: Candidate): number => candidate.rereadTokens + LOAD_TOKENS * candidate.load;

/** The cheapest; ties by load, then by whose last turn was longest ago, then by index. Null when there is none. */
export const chooseReplica = (candidates: readonly Candidate[]): number | null => {
  let best: Candidate | null = null;
  for (const candidate of candidates) {
    const order =
      best === null
        ? -1
        : replicaCost(candidate) - replicaCost(best) ||
          candidate.load - best.load ||
          candidate.lastTurn - best.lastTurn ||
          candidate.index - best.index;
    if (order < 0) best = candidate;
  }
  return best?.index ?? null;
};
