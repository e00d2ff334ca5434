/**
 * Token ids as the text that a GEN line carries. A prompt has thousands, and `join` takes several times as long with ids that V8 has no
 * text at hand for (measured: 0.18 ms against 0.04 ms for 4,097 ids of a large vocabulary), all of it before the first token.
 */

const COMMA = 44;
const ZERO = 48;
/** Digits of 2^31 - 1. */
const MAX_DIGITS = 10;

const digitsOf = (id: number): number => {
  let digits = 1;
  for (let bound = 10; digits < MAX_DIGITS && id >= bound; bound *= 10) digits++;
  return digits;
};

/** The ids, each 0 to 2^31 - 1, in decimal with commas between. */
export const formatIds = (ids: ArrayLike<number>): string => {
  const text = Buffer.allocUnsafe(ids.length * (MAX_DIGITS + 1));
  let end = 0;
  for (let at = 0; at < ids.length; at++) {
    let rest = ids[at] as number;
    if (at > 0) text[end++] = COMMA;
    end += digitsOf(rest);
    let place = end;
    do {
      const tenth = (rest / 10) | 0;
      text[--place] = ZERO + rest - tenth * 10;
      rest = tenth;
    } while (rest > 0);
  }
  return text.toString("latin1", 0, end);
};
