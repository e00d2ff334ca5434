/** The statistics of one turn as the engine's DONE line carries them. Plain data: parsing lives with the wire. */

export type Finish = "stop" | "length" | "cancel" | "nonfinite" | "error";

/** One DONE, frozen. Counts are tokens, times ms on the engine's clock. */
export interface DoneStatistics {
  /** Tokens the engine made, the end token included; it may have run ahead of a caller that stopped early. */
  readonly generated: number;
  readonly promptTokens: number;
  readonly promptMs: number;
  readonly decodeMs: number;
  readonly finish: Finish;
  readonly draftsAccepted: number;
  readonly draftsOffered: number;
  /** Prompt tokens taken from the KV cache. */
  readonly reused: number;
  /** Expert cache, decode phase; 0 0 for a dense model. */
  readonly expertHits: number;
  readonly expertLookups: number;
  readonly ramBlobs: number;
  readonly fileBlobs: number;
  readonly fileMb: number;
  /** Prompt tokens really computed. */
  readonly promptRead: number;
  /** Experts read over PCIe. */
  readonly offloaded: number;
}
