/** What `bench serve` measures, how much of it, and in which order. Pure. */

/** What a run is made of where nothing else was said; seconds are what one measurement is meant to take at the decoder's own pace. */
export const efforts = {
  full: { connections: [1, 4, 16, 64, 256], rounds: 3, tokens: 128, sampleS: 2, warmUpS: 3 },
  quick: { connections: [1, 4], rounds: 1, tokens: 32, sampleS: 0.2, warmUpS: 0.3 },
} as const;

/** Most connections that may be asked for at once. */
export const MAX_CONNECTIONS = 256;
export const MAX_CONNECTION_COUNTS = 16;

/** Tokens of a short answer. */
export const SHORT_ANSWER_TOKENS = 8;

/** Turns of the very first measurement, which tells the pace. */
export const PACE_TURNS = 2;
/** More turns than this tell nothing new, however fast the model is. */
export const MAX_TURNS = 4_096;

export type MeasureName = "bare" | "agent" | "short";

export interface Measurement {
  readonly name: MeasureName;
  readonly connections: number;
}

/** Turns that take about `seconds` at this pace, at most MAX_TURNS: as many for each connection, at least one. */
export const turnsFor = (connections: number, tokensPerTurn: number, tokensPerS: number, seconds: number): number => {
  const turns = Math.min(MAX_TURNS, (tokensPerS * seconds) / tokensPerTurn);
  return Math.max(1, Math.floor(turns / connections)) * connections;
};

/**
 * The measurements of one round. Decoder and agent of one number of connections stand side by side, for their ratio is what counts on a
 * machine whose speed drifts; which of them comes first changes from round to round, and so does where in the list a round begins.
 */
export const planRound = (connections: readonly number[], round: number, rounds: number): Measurement[] => {
  const first = Math.floor((round * connections.length) / rounds);
  const order: readonly MeasureName[] = round % 2 === 0 ? ["bare", "agent", "short"] : ["agent", "bare", "short"];
  return [...connections.slice(first), ...connections.slice(0, first)].flatMap((count) =>
    order.map((name) => ({ name, connections: count })),
  );
};
