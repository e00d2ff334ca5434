/** Bounds that edge and agent share. */

/** Largest request body that either takes, bytes; a prompt of a million tokens fits. */
export const MAX_BODY_BYTES = 4 * 1024 * 1024;
