/**
 * How long a lost replica cools down before its next start: a pure decision. Each loss in a row doubles the pause, so that an engine that
 * dies of what it is asked does not burn its GPU in a loop; an engine that stayed well for a while starts from the beginning.
 */

/** Longest pause, unless the configured first one is longer. */
export const MAX_HEAL_COOLDOWN_MS = 600_000;

/** An engine that was READY for so long counts as well: its next loss is a first one. */
export const HEALTHY_AGAIN_MS = 600_000;

/** Doublings beyond this change nothing any more; keeps the power finite. */
const MAX_DOUBLINGS = 30;

/** Losses in a row once an engine is lost that was READY for `readyForMs` (0: never READY) after `losses` others. */
export const lossesInARow = (losses: number, readyForMs: number): number =>
  readyForMs >= HEALTHY_AGAIN_MS ? 1 : losses + 1;

/** The pause after the n-th loss in a row (n from 1), ms. */
export const healPauseMs = (losses: number, firstPauseMs: number): number =>
  Math.min(
    firstPauseMs * 2 ** Math.min(Math.max(0, losses - 1), MAX_DOUBLINGS),
    Math.max(MAX_HEAL_COOLDOWN_MS, firstPauseMs),
  );
