/** What can be the name of a model, in a request and everywhere else. Pure. */

/** What clients may say instead of the name of an agent's first model. */
export const DEFAULT_MODEL_NAME = "default";
/** Longest name that a request may give, characters. */
export const MAX_MODEL_NAME_CHARS = 256;

/** A text of 1 to MAX_MODEL_NAME_CHARS characters. Half of a surrogate pair has no bytes in UTF-8, so it is in no name. */
export const isModelName = (text: string): boolean =>
  text.length > 0 && text.length <= MAX_MODEL_NAME_CHARS && !/\p{Surrogate}/u.test(text);
