/** Samples of the bench as figures and as a table. Pure. */
import type { Sample } from "../../gpu-agent/src/bench/load.ts";
import { quantile, rounded as round, sum } from "../../gpu-agent/src/bench/quantile.ts";
import { formatFigures } from "../../gpu-agent/src/bench/table.ts";

export const placeNames = ["native", "agent", "edge"] as const;
export type PlaceName = (typeof placeNames)[number];

/** One combination that is measured. */
export interface Combination {
  readonly place: PlaceName;
  readonly slots: number;
  readonly callers: number;
}

export interface Measured extends Sample {
  /** CPU time of the serving processes meanwhile by name, ms; without those that the system does not tell. */
  readonly serverCpuMs: Readonly<Record<string, number>>;
}

export interface Row extends Combination {
  /** Turns that were measured, warm-up excluded. */
  readonly turns: number;
  /** To the first token, the wait for a slot included. */
  readonly ttftP50Ms: number;
  readonly ttftP99Ms: number;
  /** Pieces of text a second over all callers: the median of the rounds, and their extremes. */
  readonly chunksPerS: number;
  readonly chunksPerSMin: number;
  readonly chunksPerSMax: number;
  /** Of native for the agent, of the agent for the edge; null for native. */
  readonly ratio: number | null;
  /** Share of one core that the load itself took (for native that is the decoder's own process). */
  readonly driverCores: number;
  /** CPU time of each serving process a chunk, µs. */
  readonly serverCpuUsPerChunk: Readonly<Record<string, number>>;
}

const rates = (measured: readonly Measured[]): number[] =>
  measured.map(({ chunks, elapsedMs }) => (chunks / elapsedMs) * 1000);

/** The figures of one combination. `before` are the samples of the place that it goes through; undefined for native. */
export const toRow = (
  combination: Combination,
  measured: readonly Measured[],
  before: readonly Measured[] | undefined,
): Row => {
  const ttftsMs = measured.flatMap(({ ttftMs }) => ttftMs);
  const chunksPerS = quantile(rates(measured), 0.5);
  const chunks = sum(measured.map((one) => one.chunks));
  const names = Object.keys(measured[0]?.serverCpuMs ?? {});
  return {
    ...combination,
    turns: ttftsMs.length,
    ttftP50Ms: round(quantile(ttftsMs, 0.5), 2),
    ttftP99Ms: round(quantile(ttftsMs, 0.99), 2),
    chunksPerS: round(chunksPerS, 0),
    chunksPerSMin: round(Math.min(...rates(measured)), 0),
    chunksPerSMax: round(Math.max(...rates(measured)), 0),
    ratio: before === undefined ? null : round(chunksPerS / quantile(rates(before), 0.5), 2),
    driverCores: round(sum(measured.map((one) => one.driverCpuMs)) / sum(measured.map((one) => one.elapsedMs)), 2),
    serverCpuUsPerChunk: Object.fromEntries(
      names.map((name) => [name, round((sum(measured.map((one) => one.serverCpuMs[name] ?? 0)) / chunks) * 1000, 0)]),
    ),
  };
};

/** The rows as a table, places of one combination below each other. */
export const formatRows = (rows: readonly Row[]): string =>
  formatFigures(
    [
      "place",
      "slots",
      "callers",
      "TTFT p50 ms",
      "p99 ms",
      "chunks/s",
      "min..max",
      "of the place before",
      "load's cores",
      "CPU us/chunk",
    ],
    rows.map((row) => [
      row.place,
      String(row.slots),
      String(row.callers),
      row.ttftP50Ms.toFixed(2),
      row.ttftP99Ms.toFixed(2),
      String(row.chunksPerS),
      `${row.chunksPerSMin}..${row.chunksPerSMax}`,
      row.ratio?.toFixed(2) ?? "-",
      row.driverCores.toFixed(2),
      Object.entries(row.serverCpuUsPerChunk)
        .map(([name, us]) => `${name} ${us}`)
        .join(", ") || "-",
    ]),
  );
