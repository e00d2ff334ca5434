/** The header fields that tell a client about its limits and its waits. Pure. */
import type { RateLimitState } from "./key-guard-types.ts";

type Field = [name: string, value: string];

const S_PER_MINUTE = 60;

/** A wait as OpenAI's clients know it: `120ms`, `1s`, `6m0s`. Rounded up, so that who waits so long has waited long enough. */
export const formatWait = (waitMs: number): string => {
  const wholeMs = Math.ceil(waitMs);
  if (wholeMs < 1000) return `${wholeMs}ms`;
  const seconds = Math.ceil(wholeMs / 1000);
  if (seconds < S_PER_MINUTE) return `${seconds}s`;
  return `${Math.floor(seconds / S_PER_MINUTE)}m${seconds % S_PER_MINUTE}s`;
};

/** x-ratelimit-{limit,remaining,reset}-{requests,tokens}; nothing for a limit that the key does not have. */
export const rateLimitFields = (limits: RateLimitState): Field[] =>
  (["requests", "tokens"] as const).flatMap((of): Field[] => {
    const state = limits[of];
    if (state === null) return [];
    return [
      [`x-ratelimit-limit-${of}`, String(state.limit)],
      [`x-ratelimit-remaining-${of}`, String(state.remaining)],
      [`x-ratelimit-reset-${of}`, formatWait(state.resetMs)],
    ];
  });

/** When to ask again; undefined where that would not help. */
export const retryFields = (waitMs: number | undefined): Field[] => {
  if (waitMs === undefined) return [["x-should-retry", "false"]];
  const wholeMs = Math.max(1, Math.ceil(waitMs));
  return [
    ["retry-after", String(Math.ceil(wholeMs / 1000))],
    ["retry-after-ms", String(wholeMs)],
  ];
};
