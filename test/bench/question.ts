/** The one question of the bench: long to answer, and its answer is known to the letter. */

const LAST_NUMBER = 60;

export const QUESTION = `Count from 1 to ${LAST_NUMBER}.`;

export const EXPECTED_ANSWER = `${Array.from({ length: LAST_NUMBER }, (_, at) => at + 1).join(", ")}.`;

export const MESSAGES = [{ role: "user", content: QUESTION }] as const;

/** Room for the whole answer; the turn ends by itself well before. */
export const MAX_TOKENS = 400;
