/**
 * What `--log-prompts` asks for, and the only place where text of people reaches the log: the messages of a turn and what it answered,
 * each cut at a bound. Without that option none of this runs.
 */
import type { TurnSink } from "../turn/run-turn.ts";

/** Of the messages as JSON, and of the answer. */
export const MAX_LOGGED_TEXT_CHARS = 32_768;

/** Hears an answer on its way to the client. */
export class TurnText {
  #answer = "";

  /** The sink, with an ear on it. */
  sink(inner: TurnSink): TurnSink {
    return {
      text: (piece) => {
        this.#answer += piece.slice(0, MAX_LOGGED_TEXT_CHARS - this.#answer.length);
        inner.text(piece);
      },
      flush: () => inner.flush(),
    };
  }

  /** Fields of the line that tells it. */
  fields(messages: unknown): Readonly<Record<string, string>> {
    return { messages: JSON.stringify(messages).slice(0, MAX_LOGGED_TEXT_CHARS), answer: this.#answer };
  }
}
