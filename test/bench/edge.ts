/**
 * `npm run bench:edge`: what the edge adds to a request, to its first byte and to every event, against no edge and against a bare worker in
 * the same runtime; what each of its steps costs; and CPU time per kind of request. In one run, rounds rotated, so that a machine whose speed
 * drifts treats all alike. Keys are checked, limits taken and accounts kept as for any client.
 *
 * Results go to stdout, progress to stderr. It judges nothing: what is too slow is for the reader to say.
 */

import { writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { describeMachine } from "../../gpu-agent/src/bench/machine.ts";
import { machineLine } from "../../gpu-agent/src/bench/machine-line.ts";
import { cpuTimeMs } from "../../gpu-agent/src/bench/process-figures.ts";
import { quantile, rounded } from "../../gpu-agent/src/bench/quantile.ts";
import { formatFigures } from "../../gpu-agent/src/bench/table.ts";
import { measureCpu } from "./edge-cpu.ts";
import {
  type EdgeMeasured,
  edgeRows,
  formatEdgeRows,
  formatStepRows,
  type PlaceName,
  placeNames,
  stepRows,
} from "./edge-figures.ts";
import type { EdgeLoad } from "./edge-load.ts";
import { type EdgePlaces, type Place, probeTakes, rungOf, timeSteps, withEdgePlaces } from "./edge-places.ts";
import { exitCodes, runScript } from "./run-script.ts";

const CONNECTIONS = [1, 16, 64] as const;
const STEP_CONNECTIONS = [1, 16] as const;
const PAUSE_MS = 5;
/** The ladder's own rungs, and the whole edge as the last. */
const steps = ["bare", "identify", "body", "guard", "route", "sign", "hook", "edge"] as const;
/** What a run is made of: rounds, ms of one measurement, pace of the paced streams, groups of the take probe, loops of a step alone. */
const EFFORTS = {
  full: { rounds: 5, forMs: 1_500, paceMs: 5, groups: 500, loops: 5_000 },
  quick: { rounds: 1, forMs: 300, paceMs: 1, groups: 50, loops: 2_000 },
} as const;
type Effort = (typeof EFFORTS)[keyof typeof EFFORTS];
const WARM_UP_CONNECTIONS = 4;
const WARM_UP_MS = 2_000;

const USAGE = "usage: npm run bench:edge -- [--quick] [--json FILE]";

const progress = (text: string): void => void process.stderr.write(`${text}\n`);

interface Options {
  readonly quick: boolean;
  readonly jsonFile: string | undefined;
}

const readOptions = (words: readonly string[]): Options | undefined => {
  try {
    const { values } = parseArgs({
      args: [...words],
      options: { quick: { type: "boolean", default: false }, json: { type: "string" } },
    });
    // npm runs scripts in the package's folder; a path is meant from where the person stands.
    const jsonFile = values.json && resolve(process.env.INIT_CWD ?? process.cwd(), values.json);
    return { quick: values.quick, jsonFile };
  } catch (error) {
    progress(`${(error as Error).message}\n${USAGE}`);
    return undefined;
  }
};

type Stream = Pick<EdgeLoad, "events" | "paceMs" | "forMs" | "pauseMs"> & {
  readonly name: string;
  readonly connections: readonly number[];
};

const streamsOf = ({ forMs, paceMs }: Effort): readonly Stream[] => [
  // A request to an edge that has nothing else to do: what a caller of a quiet edge waits for.
  { name: `8 events, ${PAUSE_MS} ms apart`, connections: [1], events: 8, paceMs: 0, pauseMs: PAUSE_MS, forMs },
  { name: "8 events", connections: CONNECTIONS, events: 8, paceMs: 0, pauseMs: 0, forMs },
  { name: "500 events", connections: CONNECTIONS, events: 500, paceMs: 0, pauseMs: 0, forMs },
  { name: `500, one in ${paceMs} ms`, connections: CONNECTIONS, events: 500, paceMs, pauseMs: 0, forMs: 0 },
];

const measure = async (
  places: EdgePlaces,
  { url, key, pid }: Place,
  connections: number,
  { events, paceMs, forMs, pauseMs }: Omit<Stream, "name" | "connections">,
): Promise<EdgeMeasured> => {
  const cpuMs = () => (pid === undefined ? Number.NaN : (cpuTimeMs(pid) ?? Number.NaN));
  const before = cpuMs();
  const sample = await places.run({ url, key, connections, forMs, pauseMs, body: "small", events, paceMs });
  return { ...sample, cpuMs: cpuMs() - before };
};

/** `plan` in each round, begun somewhere else each time; the results by the plan's places. */
const inRounds = async <Item, Result>(
  rounds: number,
  plan: readonly Item[],
  work: (item: Item) => Promise<Result>,
  about: string,
): Promise<Result[][]> => {
  const results = plan.map((): Result[] => []);
  for (let round = 0; round < rounds; round += 1) {
    progress(`${about}: round ${round + 1} of ${rounds}`);
    const first = Math.floor((round * plan.length) / rounds);
    for (let at = 0; at < plan.length; at += 1) {
      const index = (first + at) % plan.length;
      results[index]?.push(await work(plan[index] as Item));
    }
  }
  return results;
};

const comparePlaces = async (places: EdgePlaces, effort: Effort) => {
  const combinations = streamsOf(effort).flatMap((stream) =>
    stream.connections.map((connections) => ({ stream, connections })),
  );
  const plan = combinations.flatMap((combination) => placeNames.map((place) => ({ ...combination, place })));
  const results = await inRounds(
    effort.rounds,
    plan,
    ({ stream, connections, place }) => measure(places, places[place], connections, stream),
    "places",
  );
  return combinations.flatMap(({ stream, connections }, at) =>
    edgeRows({
      stream: stream.name,
      connections,
      places: Object.fromEntries(
        placeNames.map((place, index) => [place, results[at * placeNames.length + index] ?? []]),
      ) as Record<PlaceName, EdgeMeasured[]>,
    }),
  );
};

const placeOf = (places: EdgePlaces, step: (typeof steps)[number]): Place =>
  step === "edge" ? places.ladder : rungOf(places, step);

const climb = async (places: EdgePlaces, effort: Effort) => {
  const stream = { events: 8, paceMs: 0, forMs: effort.forMs };
  for (const step of steps) {
    await measure(places, placeOf(places, step), WARM_UP_CONNECTIONS, { ...stream, pauseMs: 0 });
  }
  const plan = STEP_CONNECTIONS.flatMap((connections) => steps.map((step) => ({ connections, step })));
  const results = await inRounds(
    effort.rounds,
    plan,
    ({ connections, step }) =>
      measure(places, placeOf(places, step), connections, { ...stream, pauseMs: connections === 1 ? PAUSE_MS : 0 }),
    "steps",
  );
  return STEP_CONNECTIONS.flatMap((connections, at) =>
    stepRows(
      connections,
      steps.map((step, index) => ({ step, rounds: results[at * steps.length + index] ?? [] })),
    ),
  );
};

const timeTakes = async ({ ladder }: EdgePlaces, groups: number) => {
  await probeTakes(ladder, Math.ceil(groups / 10));
  const times = await probeTakes(ladder, groups);
  const mean = times.reduce((sum, time) => sum + time, 0) / times.length;
  return {
    groups,
    meanMs: rounded(mean, 3),
    p50Ms: rounded(quantile(times, 0.5), 2),
    p99Ms: rounded(quantile(times, 0.99), 2),
  };
};

const measureAll = async (places: EdgePlaces, effort: Effort) => {
  progress("warming up");
  const warmUp = { events: 8, paceMs: 0, pauseMs: 0, forMs: WARM_UP_MS };
  for (const name of placeNames) await measure(places, places[name], WARM_UP_CONNECTIONS, warmUp);
  const rows = await comparePlaces(places, effort);
  const stepsTaken = await climb(places, effort);
  progress("takes, CPU time");
  const takes = await timeTakes(places, effort.groups);
  const alone = (await timeSteps(places.ladder, effort.loops)).map(([step, us]) => ({ step, us: rounded(us, 1) }));
  return { rows, steps: stepsTaken, alone, takes, cpu: await measureCpu(places.edge, places.run, effort.forMs) };
};

const bench = async (options: Options): Promise<number> => {
  const interrupted = Promise.withResolvers<"interrupted">();
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(signal, () => interrupted.resolve("interrupted"));
  }
  const startedMs = performance.now();
  const machine = describeMachine();
  progress("starting upstream, client and workers");
  const effort = EFFORTS[options.quick ? "quick" : "full"];
  const ended = await withEdgePlaces((places) => measureAll(places, effort), interrupted.promise);
  if (ended === "interrupted") return exitCodes.interrupted;
  const seconds = Math.round((performance.now() - startedMs) / 1000);
  const { rows, steps: stepsTaken, alone, takes, cpu } = ended;
  const aloneTable = formatFigures(
    ["a step's own code, warm", "us"],
    alone.map(({ step, us }) => [step, us.toFixed(1)]),
  );
  const cpuTable = formatFigures(
    ["CPU time of workerd, by kind", "requests", "ms/request"],
    cpu.map(({ kind, requests, cpuMsPerRequest }) => [kind, String(requests), cpuMsPerRequest.toFixed(2)]),
  );
  process.stdout.write(
    `${machineLine(machine)}; ${describeMachine().loadAverage.toFixed(2)} after it\n\n${formatEdgeRows(rows)}\n\n` +
      `${formatStepRows(stepsTaken)}\n\n${aloneTable}\n\n` +
      `take at a key's guard, ms: mean ${takes.meanMs}, p50 ${takes.p50Ms}, p99 ${takes.p99Ms} (${takes.groups} groups of 10)\n\n` +
      `${cpuTable}\n\n${seconds} s in all\n`,
  );
  if (options.jsonFile !== undefined) {
    writeFileSync(options.jsonFile, `${JSON.stringify({ machine, seconds, ...ended }, null, 2)}\n`);
  }
  return exitCodes.ok;
};

await runScript(readOptions(process.argv.slice(2)), bench, progress);
