/** The lines of a `--wire-log` directory as they stand, for engines that do not tag; wire-log.ts makes turns of those that do. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

export interface EngineLine {
  /** ISO, to the millisecond. */
  readonly time: string;
  readonly replica: number;
  readonly pid: number;
  /** `>` to the engine, `<` from it. */
  readonly direction: string;
  readonly text: string;
}

/** Lines of every engine process in the order of their time; each process's own are in order whatever the clock says. */
export const readEngineLines = (directory: string): readonly EngineLine[] =>
  readdirSync(directory)
    .flatMap((file) => {
      const [, replica, pid] = /^replica-(\d+)\.(\d+)\.wire\.log$/.exec(file) ?? [];
      const log = readFileSync(join(directory, file), "utf8");
      return [...log.matchAll(/^(\S+) ([<>]) (.*)$/gm)].map(([, time = "", direction = "", text = ""]) => ({
        time,
        replica: Number(replica),
        pid: Number(pid),
        direction,
        text,
      }));
    })
    .sort((a, b) => a.time.localeCompare(b.time));

/** First words, with runs of `T` and `PP` as one: `> GEN`, `< T`, `> STOP`, … */
export const shapeOf = (lines: readonly EngineLine[]): readonly string[] => {
  const heads = lines.map(({ direction, text }) => `${direction} ${text.split(" ")[0]}`);
  return heads.filter((head, at) => head !== heads[at - 1]);
};
