/**
 * What a request may use, before anybody has tokenised it. Pure. Its usage record puts this right.
 */

/** Bytes of a body that make about one token, JSON and all. */
const BYTES_PER_TOKEN = 4;
/** Where the client names no bound for the answer. */
export const DEFAULT_MAX_TOKENS = 1024;

/** More than any limit that a key can have, so it is refused by each; and a number that sums of many hold exactly. */
export const MAX_ESTIMATED_TOKENS = 2 ** 40;

/** Tokens to reserve for a body of so many bytes; `maxTokens` is the client's bound for the answer. */
export const estimateTokens = (bodyBytes: number, maxTokens: number | undefined): number =>
  Math.min(Math.ceil(bodyBytes / BYTES_PER_TOKEN) + (maxTokens ?? DEFAULT_MAX_TOKENS), MAX_ESTIMATED_TOKENS);
