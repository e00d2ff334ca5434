/** Samples of the edge's bench as figures and as tables. Pure. */
import { quantile, rounded as round, sum } from "../../gpu-agent/src/bench/quantile.ts";
import { formatFigures } from "../../gpu-agent/src/bench/table.ts";
import type { EdgeSample } from "./edge-load.ts";

/** One measurement; CPU time of the process in between meanwhile, ms; NaN where there is none. */
export interface EdgeMeasured extends EdgeSample {
  readonly cpuMs: number;
}

export const placeNames = ["direct", "bare", "edge"] as const;
export type PlaceName = (typeof placeNames)[number];

export interface EdgeRow {
  readonly stream: string;
  readonly connections: number;
  readonly place: PlaceName;
  readonly requests: number;
  /** To the first byte of the first event. */
  readonly firstEventP50Ms: number;
  readonly firstEventP99Ms: number;
  /** Of the medians, over direct: the median of the rounds' differences; null for direct. */
  readonly addedFirstEventMs: number | null;
  /** What is added, of what the bare worker adds; for the edge alone. */
  readonly ofBare: number | null;
  /** From an event's writing to its arrival, median, and what is added to it over direct. */
  readonly eventDelayP50Ms: number | null;
  readonly addedEventDelayMs: number | null;
  /** The median of the rounds, and their extremes. */
  readonly requestsPerS: number;
  readonly requestsPerSMin: number;
  readonly requestsPerSMax: number;
  readonly cpuUsPerRequest: number | null;
}

export interface Rounds {
  readonly stream: string;
  readonly connections: number;
  /** Sample of each round, by place; of one length. */
  readonly places: Readonly<Record<PlaceName, readonly EdgeMeasured[]>>;
}

const median = (values: readonly number[]): number => quantile(values, 0.5);
const rates = (rounds: readonly EdgeMeasured[]) =>
  rounds.map(({ requests, elapsedMs }) => (requests / elapsedMs) * 1000);
const firstP50 = ({ firstEventMs }: EdgeMeasured): number => median(firstEventMs);
const delayP50 = ({ eventDelayMs }: EdgeMeasured): number => eventDelayMs?.p50 ?? Number.NaN;

/** The median over the rounds of what `of` has become from one place to the other. */
export const addedOver = (
  before: readonly EdgeMeasured[],
  after: readonly EdgeMeasured[],
  of: (measured: EdgeMeasured) => number,
): number =>
  median(
    after.flatMap((measured, round) => {
      const other = before[round];
      return other === undefined ? [] : [of(measured) - of(other)];
    }),
  );

/** CPU time of one request, µs. */
export const cpuUsPerRequest = (rounds: readonly EdgeMeasured[]): number =>
  (sum(rounds.map(({ cpuMs }) => cpuMs)) / sum(rounds.map(({ requests }) => requests))) * 1000;

const orNull = (value: number, digits: number): number | null => (Number.isNaN(value) ? null : round(value, digits));

/** One row for each place. */
export const edgeRows = ({ stream, connections, places }: Rounds): EdgeRow[] => {
  const bareAdds = addedOver(places.direct, places.bare, firstP50);
  return placeNames.map((place) => {
    const rounds = places[place];
    const firsts = rounds.flatMap(({ firstEventMs }) => firstEventMs);
    const added = place === "direct" ? Number.NaN : addedOver(places.direct, rounds, firstP50);
    const addedDelay = place === "direct" ? Number.NaN : addedOver(places.direct, rounds, delayP50);
    return {
      stream,
      connections,
      place,
      requests: sum(rounds.map(({ requests }) => requests)),
      firstEventP50Ms: round(median(firsts), 3),
      firstEventP99Ms: round(quantile(firsts, 0.99), 3),
      addedFirstEventMs: orNull(added, 3),
      ofBare: place === "edge" ? orNull(added / bareAdds, 2) : null,
      eventDelayP50Ms: orNull(median(rounds.map(delayP50)), 3),
      addedEventDelayMs: orNull(addedDelay, 3),
      requestsPerS: round(median(rates(rounds)), 1),
      requestsPerSMin: round(Math.min(...rates(rounds)), 1),
      requestsPerSMax: round(Math.max(...rates(rounds)), 1),
      cpuUsPerRequest: orNull(cpuUsPerRequest(rounds), 0),
    };
  });
};

const shown = (value: number | null, digits: number): string => (value === null ? "-" : value.toFixed(digits));

export const formatEdgeRows = (rows: readonly EdgeRow[]): string =>
  formatFigures(
    [
      "stream",
      "connections",
      "place",
      "first event p50 ms",
      "p99",
      "added",
      "of bare's",
      "event delay p50 ms",
      "added",
      "requests/s",
      "min..max",
      "CPU us/request",
    ],
    rows.map((row) => [
      row.stream,
      String(row.connections),
      row.place,
      row.firstEventP50Ms.toFixed(2),
      row.firstEventP99Ms.toFixed(2),
      shown(row.addedFirstEventMs, 2),
      shown(row.ofBare, 2),
      shown(row.eventDelayP50Ms, 3),
      shown(row.addedEventDelayMs, 3),
      String(row.requestsPerS),
      `${row.requestsPerSMin}..${row.requestsPerSMax}`,
      shown(row.cpuUsPerRequest, 0),
    ]),
  );

export interface StepRow {
  readonly connections: number;
  readonly step: string;
  readonly firstEventP50Ms: number;
  readonly cpuUsPerRequest: number;
  /** Over the step before; null for the first. */
  readonly addedFirstEventMs: number | null;
  readonly addedCpuUs: number | null;
}

/** The ladder's rungs from the bottom up; `rounds` of one length each. */
export const stepRows = (
  connections: number,
  steps: readonly { readonly step: string; readonly rounds: readonly EdgeMeasured[] }[],
): StepRow[] =>
  steps.map(({ step, rounds }, at) => {
    const before = steps[at - 1]?.rounds;
    return {
      connections,
      step,
      firstEventP50Ms: round(median(rounds.flatMap(({ firstEventMs }) => firstEventMs)), 3),
      cpuUsPerRequest: round(cpuUsPerRequest(rounds), 0),
      addedFirstEventMs: before === undefined ? null : orNull(addedOver(before, rounds, firstP50), 3),
      addedCpuUs: before === undefined ? null : orNull(cpuUsPerRequest(rounds) - cpuUsPerRequest(before), 0),
    };
  });

export const formatStepRows = (rows: readonly StepRow[]): string =>
  formatFigures(
    ["connections", "up to and with", "first event p50 ms", "added", "CPU us/request", "added"],
    rows.map((row) => [
      String(row.connections),
      row.step,
      row.firstEventP50Ms.toFixed(2),
      shown(row.addedFirstEventMs, 3),
      String(row.cpuUsPerRequest),
      shown(row.addedCpuUs, 0),
    ]),
  );
