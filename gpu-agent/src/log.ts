/** Structured log lines on stderr. No prompt, key or answer ever goes in; whoever logs names ids, codes and figures. */

export type LogLevel = "debug" | "info" | "warn" | "error";

export type Log = (level: LogLevel, event: string, fields?: Readonly<Record<string, unknown>>) => void;

const order: readonly LogLevel[] = ["debug", "info", "warn", "error"];

/** JSON lines from `least` upwards. */
export const createLog =
  (least: LogLevel, write: (line: string) => void): Log =>
  (level, event, fields = {}) => {
    if (order.indexOf(level) < order.indexOf(least)) return;
    write(`${JSON.stringify({ time: new Date().toISOString(), level, event, ...fields })}\n`);
  };
