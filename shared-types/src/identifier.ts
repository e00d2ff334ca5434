/** Names that travel in headers and records: an agent's, a key's. Pure. A plain alphabet needs no escapes anywhere. */
import * as z from "zod";

export const identifierPattern = /^[A-Za-z0-9._-]{1,64}$/;
export const identifierSchema = z.string().regex(identifierPattern);
