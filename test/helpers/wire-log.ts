/** Reads a `--wire-log` directory back into turns: what was asked, what was answered, in which order. */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { DoneStatistics } from "@lockgate/shared-types";
import { parseLine } from "../../gpu-agent/src/replicas/wire.ts";

export interface WireTurn {
  readonly turn: number;
  readonly replica: number;
  readonly pid: number;
  readonly slot: number;
  readonly promptIds: readonly number[];
  readonly maxTokens: number;
  readonly tokens: readonly number[];
  /** Lines of the log, counted from 0 over the whole file, at which things happened; -1 for never. */
  readonly genLine: number;
  readonly stopLine: number;
  readonly endLine: number;
  readonly done: DoneStatistics | null;
  readonly error: string | null;
}

type Building = { -readonly [K in keyof WireTurn]: WireTurn[K] } & { tokens: number[] };

/** Turns of every engine process in the directory, in the order of their GENs. Engines must tag, as ours do. */
export const readWireLog = (directory: string): readonly WireTurn[] => {
  const turns: Building[] = [];
  for (const file of readdirSync(directory)) {
    const [, replica, pid] = /^replica-(\d+)\.(\d+)\.wire\.log$/.exec(file) ?? [];
    const byNumber = new Map<number, Building>();
    for (const [at, entry] of readFileSync(join(directory, file), "utf8").split("\n").entries()) {
      const [, direction, line = ""] = /^\S+ ([<>]) (.*)$/.exec(entry) ?? [];
      if (direction === ">") {
        const turn = Number(/ turn=(\d+)/.exec(line)?.[1] ?? -1);
        if (/^B?GENI? /.test(line)) {
          const words = line.split(" ");
          const batched = words[0]?.startsWith("B") === true;
          const built: Building = {
            turn,
            replica: Number(replica),
            pid: Number(pid),
            slot: batched ? Number(words[1]) : 0,
            promptIds: (words.at(-1) ?? "").split(",").map(Number),
            maxTokens: Number(words[batched ? 2 : 1]),
            tokens: [],
            genLine: at,
            stopLine: -1,
            endLine: -1,
            done: null,
            error: null,
          };
          byNumber.set(turn, built);
          turns.push(built);
        } else if (/^B?STOP/.test(line)) {
          const running = byNumber.get(turn);
          if (running !== undefined) running.stopLine = at;
        }
      } else if (direction === "<") {
        const message = parseLine(line);
        if (!("turn" in message)) continue;
        const running = byNumber.get(message.turn);
        if (running === undefined) continue;
        if (message.kind === "token") running.tokens.push(message.id);
        if (message.kind === "done") running.done = message.statistics;
        if (message.kind === "error") running.error = message.message;
        if (message.kind === "done" || message.kind === "error") running.endLine = at;
      }
    }
  }
  return turns.toSorted((a, b) => a.turn - b.turn);
};
