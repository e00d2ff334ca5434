/**
 * One JSON object a line, for the platform's log search. Callers pass identifiers and causes, never a credential or a body.
 */

export type LogFields = Readonly<Record<string, string | number | boolean | undefined>>;

/** What a request is called in the log. */
export interface RequestNames {
  readonly requestId: string;
  readonly clientRequestId: string | undefined;
}

/** An ordinary event. */
export const logInfo = (event: string, fields: LogFields): void => console.log(JSON.stringify({ event, ...fields }));

/** Something that an operator should mend. */
export const logError = (event: string, fields: LogFields): void => console.error(JSON.stringify({ event, ...fields }));
