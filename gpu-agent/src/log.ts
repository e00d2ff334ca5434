/**
 * Structured log lines on stderr: one JSON object a line, made by pino, which writes whatever it is given (a cycle, a BigInt, an own
 * getter that throws) where JSON.stringify would throw in the middle of a turn.
 *
 * No prompt, key, token id or answer ever goes in; whoever logs names ids, codes and figures. The one exception is asked for by
 * `--log-prompts` and made in http/turn-text.ts.
 */
import { pino } from "pino";

export type LogLevel = "debug" | "info" | "warn" | "error";

/** Logs an event by its name; `fields` may hold what pino can write. Never throws. */
export type Log = (level: LogLevel, event: string, fields?: Readonly<Record<string, unknown>>) => void;

/** JSON lines from what `least` says at the time upwards; `write` takes each with its LF. */
export const createLog = (least: () => LogLevel, write: (line: string) => void): Log => {
  const logger = pino(
    {
      level: least(),
      // The journal knows host and process.
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    { write },
  );
  return (level, event, fields) => {
    if (logger.level !== least()) logger.level = least();
    logger[level]({ event, ...fields });
  };
};

/** The same log with fields that every line gets, such as the ids of one request. */
export const withFields =
  (log: Log, bound: Readonly<Record<string, unknown>>): Log =>
  (level, event, fields) =>
    log(level, event, { ...bound, ...fields });
