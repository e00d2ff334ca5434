/** The log's word for what was thrown. Pure. It never reaches a client. */
export const causeOf = (error: unknown): string => (error instanceof Error ? error.message : "unknown");
