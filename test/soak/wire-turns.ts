/**
 * Reads a `--wire-log` directory line by line, however long it is, and keeps of each turn what a bill needs. (test/helpers/wire-log.ts keeps
 * the tokens as well, and with them the whole run in memory.)
 *
 * Turns are named by the agent's own numbers, which start again with each agent: a directory must hold one life alone.
 */
import { createReadStream, readdirSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { DoneStatistics } from "@lockgate/shared-types";
import { parseLine } from "../../gpu-agent/src/replicas/wire.ts";

export interface WireTurn {
  readonly turn: number;
  readonly replica: number;
  /** Token lines that were read. */
  readonly tokens: number;
  /** Null where the replica or the agent was gone before it, or the turn ended in ERR. */
  readonly done: DoneStatistics | null;
  /** When the GEN was written and the DONE read, Unix ms; NaN for never. */
  readonly genAtMs: number;
  readonly doneAtMs: number;
  /** DONE and ERR lines: a turn ends at most once. */
  readonly ends: number;
}

type Building = { -readonly [K in keyof WireTurn]: WireTurn[K] };

export interface WireDigest {
  readonly turns: readonly WireTurn[];
  /** Lines that named a turn which was not asked for in this log. */
  readonly strayLines: number;
}

export const readWireTurns = async (directory: string): Promise<WireDigest> => {
  const turns = new Map<number, Building>();
  let strayLines = 0;
  for (const file of readdirSync(directory).sort()) {
    const replica = Number(/^replica-(\d+)\.\d+\.wire\.log$/.exec(file)?.[1]);
    if (Number.isNaN(replica)) continue;
    for await (const entry of createInterface({ input: createReadStream(join(directory, file)) })) {
      const [, time = "", direction, line = ""] = /^(\S+) ([<>]) (.*)$/.exec(entry) ?? [];
      if (direction === ">") {
        if (!/^B?GENI? /.test(line)) continue;
        const turn = Number(/ turn=(\d+) /.exec(line)?.[1] ?? -1);
        turns.set(turn, {
          turn,
          replica,
          tokens: 0,
          done: null,
          genAtMs: Date.parse(time),
          doneAtMs: Number.NaN,
          ends: 0,
        });
      } else if (direction === "<") {
        const message = parseLine(line);
        if (!("turn" in message)) continue;
        const turn = turns.get(message.turn);
        if (turn === undefined || turn.replica !== replica) {
          strayLines++;
          continue;
        }
        if (message.kind === "token") turn.tokens++;
        if (message.kind === "done") {
          turn.done = message.statistics;
          turn.doneAtMs = Date.parse(time);
        }
        if (message.kind === "done" || message.kind === "error") turn.ends++;
      }
    }
  }
  return { turns: [...turns.values()], strayLines };
};
