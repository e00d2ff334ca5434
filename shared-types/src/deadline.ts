/**
 * When the client stops waiting, if it said so. Pure.
 */

/** More than a day is as good as none. */
const MAX_DEADLINE_S = 86_400;

/** `header` is x-stainless-timeout, seconds from now; anything else than a sensible number is no deadline. Returns unix ms. */
export const deadlineMs = (header: string | null, nowMs: number): number | undefined => {
  if (header === null || !/^\d{1,6}(\.\d{1,6})?$/.test(header)) return undefined;
  const seconds = Number(header);
  return seconds > 0 && seconds <= MAX_DEADLINE_S ? Math.floor(nowMs + seconds * 1000) : undefined;
};
