/** The figures of `bench serve` as text for a person. Pure. */
import { type Machine, machineLine } from "./machine-line.ts";
import type { Spread } from "./quantile.ts";
import type { ShortRow, StreamRow } from "./serve-figures.ts";
import { formatFigures } from "./table.ts";

/** Resident memory of one process, MiB; null where the system does not tell. */
export interface MemoryRow {
  readonly process: string;
  /** Ready, before the first request. */
  readonly beforeMib: number | null;
  readonly peakMib: number | null;
  readonly afterMib: number | null;
}

/** All that a run found; also what is written as JSON. */
export interface ServeReport {
  readonly machine: Machine;
  readonly model: string;
  readonly settings: {
    readonly replicas: number;
    readonly slots: number;
    readonly connections: readonly number[];
    readonly rounds: number;
    readonly tokens: number;
    readonly shortAnswerTokens: number;
    readonly promptTokens: number;
  };
  readonly streams: readonly StreamRow[];
  readonly shortAnswers: readonly ShortRow[];
  readonly memory: readonly MemoryRow[];
  /** Over all measurements, warm-up left out. */
  readonly tokens: { readonly asked: number; readonly received: number };
  readonly seconds: number;
}

/** Three digits that say something, be it 6300 tokens a second or 12.3. */
const pace = (value: number): string => value.toFixed(value >= 100 ? 0 : 1);

const spreadText = ({ min, median, max }: Spread, show: (value: number) => string): string =>
  `${show(median)} (${show(min)}..${show(max)})`;

const signed = (value: number, digits: number): string => `${value < 0 ? "" : "+"}${value.toFixed(digits)}`;

const streamTable = (rows: readonly StreamRow[]): string =>
  formatFigures(
    [
      "connections",
      "turns",
      "bare tokens/s",
      "agent tokens/s",
      "agent/bare",
      "chunks/s",
      "TPOT bare us",
      "agent us",
      "added us",
    ],
    rows.map((row) => [
      String(row.connections),
      String(row.turns),
      spreadText(row.bareTokensPerS, pace),
      spreadText(row.agentTokensPerS, pace),
      spreadText(row.ratio, (value) => value.toFixed(3)),
      pace(row.agentChunksPerS.median),
      row.tpotUs.bare.toFixed(0),
      row.tpotUs.agent.toFixed(0),
      signed(row.tpotUs.added, 0),
    ]),
  );

const firstTokenTable = (rows: readonly StreamRow[]): string =>
  formatFigures(
    ["connections", "bare p50 ms", "agent p50 ms", "added ms", "bare p99 ms", "agent p99 ms", "added ms"],
    rows.map(({ connections, ttftMs: { bare, agent, added } }) => [
      String(connections),
      bare.p50.toFixed(2),
      agent.p50.toFixed(2),
      signed(added.p50, 2),
      bare.p99.toFixed(2),
      agent.p99.toFixed(2),
      signed(added.p99, 2),
    ]),
  );

const shortTable = (rows: readonly ShortRow[]): string =>
  formatFigures(
    ["connections", "requests", "requests/s", "p50 ms", "p99 ms"],
    rows.map(({ connections, requests, requestsPerS, requestMs }) => [
      String(connections),
      String(requests),
      spreadText(requestsPerS, pace),
      requestMs.p50.toFixed(2),
      requestMs.p99.toFixed(2),
    ]),
  );

const memoryTable = (rows: readonly MemoryRow[]): string =>
  formatFigures(
    ["process", "before MiB", "peak MiB", "after MiB"],
    rows.map((row) => [row.process, ...[row.beforeMib, row.peakMib, row.afterMib].map((mib) => String(mib ?? "-"))]),
  );

/** The whole report, its last line ended. */
export const formatReport = ({ machine, model, settings, ...found }: ServeReport): string => {
  const { replicas, slots, rounds, tokens, promptTokens, shortAnswerTokens } = settings;
  const clientCores = Math.max(...found.streams.map((row) => row.clientCores));
  return `${machineLine(machine)}
${model}, replicas ${replicas}, slots ${slots}; prompt of ${promptTokens} tokens, which the slots hold after warm-up; rounds ${rounds}: median (min..max)

Streamed answers of ${tokens} tokens
${streamTable(found.streams)}

Time to the first token, a wait for a slot included
${firstTokenTable(found.streams)}

Short answers of ${shortAnswerTokens} tokens, in one piece
${shortTable(found.shortAnswers)}

Resident memory
${memoryTable(found.memory)}

The client runs on this machine and took up to ${clientCores.toFixed(2)} cores of it; the bare decoder needs no client.
${found.tokens.received} of ${found.tokens.asked} tokens came back in ${found.seconds} s.
`;
};
