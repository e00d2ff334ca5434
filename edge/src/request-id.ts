/**
 * Names a request. The internal id is always the edge's own: one that a client chose could collide with another's, and bills hang on it.
 *
 * Pure: randomness is passed in.
 */
import { toHex } from "./admit/digest.ts";

/** 128 bits: no two requests ever share an id. */
export const REQUEST_ID_BYTES = 16;

/** `req_` and the bytes in hex. */
export const requestIdOf = (random: Uint8Array): string => `req_${toHex(random)}`;
