/** Days and months of the ledger and of budgets: UTC, whatever the place. Pure. */

/** `YYYY-MM-DD` of a Unix time in ms. */
export const dayOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10);

/** `YYYY-MM` of a Unix time in ms. */
export const monthOf = (ms: number): string => dayOf(ms).slice(0, 7);
