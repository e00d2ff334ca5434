/**
 * Which header fields of a client's request go on to an agent as they are. Pure. An allow-list: they stand outside the signature and say
 * nothing about who may do what.
 */
import { traceFields } from "./trace-fields.ts";

/** `1` asks for the place in the queue, told in the comments of a stream. */
export const QUEUE_POSITION_HEADER = "x-queue-position";

export const passedFields = (headers: Headers): [name: string, value: string][] => [
  ...traceFields(headers),
  ...(headers.get(QUEUE_POSITION_HEADER) === "1" ? [[QUEUE_POSITION_HEADER, "1"] satisfies [string, string]] : []),
];
