/** How the paced engine behaves for one request: written into the request's seed by a test, read out of it by the engine. */

/** In the order of their codes. */
const kinds = [
  /** One token each `ms`, until max_tokens or STOP. */
  "tokens",
  /** Not a word for `ms`, no CPU time; then a short answer. */
  "silence",
  /** Not a word for `ms` either, but computing; deaf to STOP meanwhile. Then a short answer. */
  "computing",
  /** Progress of a prefill for `ms`, then a short answer. */
  "prefill",
  /** Progress of a prefill for `ms`, then ERR. */
  "error",
  /** Never answers, reads nothing, uses no CPU time. */
  "hang",
] as const;

export interface EnginePace {
  readonly kind: (typeof kinds)[number];
  /** Below MS_BOUND; two requests are told apart by it. */
  readonly ms: number;
}

const MS_BOUND = 1_000_000;

export const seedOf = (kind: EnginePace["kind"], ms: number): number => {
  if (!(ms >= 0 && ms < MS_BOUND)) throw new Error(`a pace of ${ms} ms does not fit into a seed`);
  return kinds.indexOf(kind) * MS_BOUND + ms;
};

/** Undefined: a request without a seed, which is answered at once. */
export const paceOf = (seed: number | undefined): EnginePace => {
  const kind = seed === undefined ? undefined : kinds[Math.floor(seed / MS_BOUND)];
  return kind === undefined ? { kind: "silence", ms: 0 } : { kind, ms: (seed ?? 0) % MS_BOUND };
};
