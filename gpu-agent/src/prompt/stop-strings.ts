/**
 * Watches a stream of text for stop strings, which may span any number of tokens, and holds back no more than what may still turn
 * out to be one.
 *
 * The match with the earliest start wins, as if the whole text had been searched at once; so a shorter stop string that is complete
 * waits while a longer one that began before it may still complete. Of two that begin together the first complete one decides: what
 * is emitted is the same. Deliberately absent: tokens and counting (the turn knows which token decided).
 *
 * Stop strings and pushed texts must be well-formed UTF-16 (the schema and the detokenizer see to it); then no surrogate pair is cut.
 */

export interface StopResult {
  /** Text that is certain to come before any stop string. */
  readonly emit: string;
  /** A stop string was found: the answer ends after `emit`. Nothing may be pushed afterwards. */
  readonly stopped: boolean;
}

export interface StopMatcher {
  push(text: string): StopResult;
  /** The last text (perhaps ""): releases what was held too, up to a complete stop string if there is one. Nothing may be pushed afterwards. */
  end(text: string): StopResult;
}

const passOn = (text: string): StopResult => ({ emit: text, stopped: false });

const withoutStops: StopMatcher = { push: passOn, end: passOn };

/** Where the first complete stop string begins, or -1. */
const firstMatch = (text: string, stops: readonly string[]): number => {
  let first = -1;
  for (const stop of stops) {
    const index = text.indexOf(stop);
    if (index !== -1 && (first === -1 || index < first)) first = index;
  }
  return first;
};

/** The first position before `limit` (where a stop string is complete, or the end) from which the rest may still become one; else `limit`. */
const firstPossible = (text: string, stops: readonly string[], longest: number, limit: number): number => {
  for (let start = Math.max(0, text.length - longest + 1); start < limit; start += 1) {
    const rest = text.slice(start);
    for (const stop of stops) {
      if (stop.startsWith(rest)) return start;
    }
  }
  return limit;
};

/**
 * A matcher for one turn. It holds less text than the longest stop string.
 *
 * @param stops not empty strings each; an empty list makes a matcher that passes everything on
 */
export const createStopMatcher = (stops: readonly string[]): StopMatcher => {
  if (stops.length === 0) return withoutStops;
  const longest = Math.max(...stops.map((stop) => stop.length));
  let held = "";

  const push = (text: string): StopResult => {
    const seen = held + text;
    const match = firstMatch(seen, stops);
    const limit = match === -1 ? seen.length : match;
    const possible = firstPossible(seen, stops, longest, limit);
    if (match !== -1 && possible === limit) {
      held = "";
      return { emit: seen.slice(0, match), stopped: true };
    }
    held = seen.slice(possible);
    return { emit: seen.slice(0, possible), stopped: false };
  };

  const end = (text: string): StopResult => {
    const rest = held + text;
    const match = firstMatch(rest, stops);
    held = "";
    return match === -1 ? passOn(rest) : { emit: rest.slice(0, match), stopped: true };
  };

  return { push, end };
};
