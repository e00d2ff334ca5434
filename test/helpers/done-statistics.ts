/** A turn's DONE for tests: 20 prompt tokens, 5 of them from the cache, 9 generated. */
import type { DoneStatistics } from "@lockgate/shared-types";

export const doneStatistics = (extra: Partial<DoneStatistics> = {}): DoneStatistics => ({
  generated: 9,
  promptTokens: 20,
  promptMs: 3.5,
  decodeMs: 4.5,
  finish: "stop",
  draftsAccepted: 1,
  draftsOffered: 2,
  reused: 5,
  expertHits: 0,
  expertLookups: 0,
  ramBlobs: 0,
  fileBlobs: 0,
  fileMb: 0,
  promptRead: 15,
  offloaded: 0,
  ...extra,
});
