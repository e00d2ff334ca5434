/** Named bounds of everything that waits or queues around a replica. Milliseconds unless named otherwise. */
export interface ReplicaLimits {
  /** From spawn to READY: big models load slowly. */
  readonly readyTimeoutMs: number;
  /** Starts that are tried before a replica is given up, and the pause between them. */
  readonly readyTries: number;
  readonly readyRetryMs: number;
  /** Longest time without a line while a turn runs. */
  readonly silenceMs: number;
  /** Time a stopped turn has to come back with its DONE; prefill progress extends it. */
  readonly drainMs: number;
  /** Time the neighbours of a stuck slot have to finish before the process is killed. */
  readonly poisonGraceMs: number;
  /** Time a process has to be gone after SIGKILL before it is abandoned. */
  readonly killTimeoutMs: number;
  /** Pause before a poisoned or crashed replica is started again. */
  readonly healCooldownMs: number;
  /** Time an engine has to exit by itself after QUIT. */
  readonly quitTimeoutMs: number;
  /** Turns that may wait for one replica's lock or slots. */
  readonly maxWaiting: number;
}

export const defaultReplicaLimits: ReplicaLimits = {
  readyTimeoutMs: 900_000,
  readyTries: 3,
  readyRetryMs: 15_000,
  silenceMs: 120_000,
  drainMs: 10_000,
  poisonGraceMs: 10_000,
  killTimeoutMs: 10_000,
  healCooldownMs: 60_000,
  quitTimeoutMs: 5_000,
  maxWaiting: 64,
};

/** Tokens an engine may send beyond the number asked for (a speculative step that overruns) before it breaks the grammar. */
export const TOKEN_OVERRUN = 64;

/** Most tokens handed to a caller at once. */
export const MAX_BATCH_TOKENS = 64;
