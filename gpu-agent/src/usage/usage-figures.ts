/** How usage records get on, as `/v1/status` and `/metrics` tell it. A type alone; who fills it in is open-usage.ts. */
export interface UsageFigures {
  /** Records that the edge has not acknowledged. */
  readonly backlog: number;
  /** Records and damaged lines that went to the reject file since the agent started. */
  readonly rejected: number;
  /** Why the last attempt to deliver came to nothing (deliveryErrorCode); null when it went through, and before the first. */
  readonly deliveryError: string | null;
}
