/** The decoder's events as lines of the engine protocol. Pure; replicas/wire.ts parses what this writes. */
import type { DecoderEvent, TurnStatistics } from "@lockgate/native";

/** How the turn of an event is addressed: `slot` is undefined for an unbatched host, `tag` -1 for a GEN that named no turn. */
export interface AnswerAddress {
  readonly slot: number | undefined;
  readonly tag: number;
}

const doneWords = (statistics: TurnStatistics): string =>
  [
    statistics.generated,
    statistics.promptTokens,
    statistics.promptMs.toFixed(1),
    statistics.decodeMs.toFixed(1),
    statistics.finish,
    0, // drafts accepted, offered: no speculation here
    0,
    statistics.reused,
    0, // expert cache and tiers: llama.cpp does not tell
    0,
    0,
    0,
    "0.0",
    statistics.promptRead,
    0,
  ].join(" ");

/** One line break would end the protocol line. */
const oneLine = (text: string): string => text.replace(/[\r\n]+/g, " ");

/** The line of an event, LF included. */
export const formatEvent = (event: DecoderEvent, address: AnswerAddress): string => {
  const at = address.slot === undefined ? "" : `${address.slot} `;
  const b = address.slot === undefined ? "" : "B";
  const tag = address.tag === -1 ? "" : ` turn=${address.tag}`;
  switch (event.type) {
    case "token":
      return `${b}T ${at}${event.token}${tag}\n`;
    case "resume":
      return `${b}RESUME ${at}${event.reused}${tag}\n`;
    case "prefill":
      return `${b}PP ${at}${event.position} ${event.total} ${event.ms.toFixed(1)} ${event.tokensPerSecond.toFixed(1)}${tag}\n`;
    case "done":
      return `${b}DONE ${at}${doneWords(event.statistics)}${tag}\n`;
    case "error":
      return formatError(event.message, address);
  }
};

/** An ERR line, LF included. */
export const formatError = (message: string, address: AnswerAddress): string => {
  const head = address.slot === undefined ? "ERR" : `BERR ${address.slot}`;
  return `${head} ${oneLine(message)}${address.tag === -1 ? "" : ` turn=${address.tag}`}\n`;
};
