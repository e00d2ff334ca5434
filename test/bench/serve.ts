/**
 * `npm run bench`: time to the first token and pieces of text a second, of the same question at the native decoder, at the agent and
 * through the edge, for 1, 4 and 16 callers and 1 and 4 slots; and the memory of each process.
 *
 * Every answer is checked to the letter. Rounds rotate through all combinations, so that a machine whose speed drifts treats them alike.
 * Results go to stdout, progress to stderr. It judges nothing: what is too slow is for the reader to say.
 */

import { writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { llamaVersion } from "@lockgate/native";
import { BenchChildren } from "../../gpu-agent/src/bench/children.ts";
import type { Driver } from "../../gpu-agent/src/bench/drivers.ts";
import type { DriverRequest } from "../../gpu-agent/src/bench/load.ts";
import { describeMachine } from "../../gpu-agent/src/bench/machine.ts";
import { machineLine } from "../../gpu-agent/src/bench/machine-line.ts";
import { cpuTimeMs, residentMemory } from "../../gpu-agent/src/bench/process-figures.ts";
import { formatFigures } from "../../gpu-agent/src/bench/table.ts";
import { type Combination, formatRows, type Measured, placeNames, type Row, toRow } from "./figures.ts";
import { type NamedProcess, startClient, startNativeDriver, startStack } from "./places.ts";
import { EXPECTED_ANSWER, MAX_TOKENS, MESSAGES, QUESTION } from "./question.ts";
import { exitCodes, runScript } from "./run-script.ts";

const CALLERS = [1, 4, 16] as const;
const SLOTS = [1, 4] as const;
/** What a run is made of: rounds, turns of one measurement (at least one a caller), turns of the warm-up of each place. */
const EFFORTS = {
  full: { rounds: 6, turns: 16, warmUpTurns: 128 },
  quick: { rounds: 1, turns: 8, warmUpTurns: 16 },
} as const;
const WARM_UP_CALLERS = 4;

const USAGE = "usage: npm run bench -- [--quick] [--json FILE] [--profile DIR]";

/** A place with so many slots, ready to be measured. */
interface Subject extends Omit<Combination, "callers"> {
  readonly driver: Driver;
  readonly target: DriverRequest["target"];
  readonly processes: readonly NamedProcess[];
}

const progress = (text: string): void => void process.stderr.write(`${text}\n`);

interface Options {
  readonly quick: boolean;
  readonly jsonFile: string | undefined;
  readonly profileDirectory: string | undefined;
}

const readOptions = (words: readonly string[]): Options | undefined => {
  // npm runs scripts in the package's folder; a path is meant from where the person stands.
  const absolute = (path: string | undefined) => path && resolve(process.env.INIT_CWD ?? process.cwd(), path);
  try {
    const { values } = parseArgs({
      args: [...words],
      options: { quick: { type: "boolean", default: false }, json: { type: "string" }, profile: { type: "string" } },
    });
    return { quick: values.quick, jsonFile: absolute(values.json), profileDirectory: absolute(values.profile) };
  } catch (error) {
    progress(`${(error as Error).message}\n${USAGE}`);
    return undefined;
  }
};

const startSubjects = async (
  children: BenchChildren,
  profileDirectory: string | undefined,
): Promise<{ subjects: Subject[]; client: Driver }> => {
  const client = await startClient(children);
  const subjects: Subject[] = [];
  for (const slots of SLOTS) {
    const native = await startNativeDriver(children, slots);
    const stack = await startStack(children, slots, profileDirectory);
    const behindEdge = stack.processes.filter(({ name }) => name !== "edge");
    subjects.push(
      { place: "native", slots, driver: native, target: undefined, processes: [] },
      { place: "agent", slots, driver: client, target: stack.agent, processes: behindEdge },
      { place: "edge", slots, driver: client, target: stack.edge, processes: stack.processes },
    );
  }
  return { subjects, client };
};

const measure = async (subject: Subject, callers: number, turns: number): Promise<Measured> => {
  const cpuMs = () => subject.processes.map(({ pid }) => cpuTimeMs(pid) ?? Number.NaN);
  const before = cpuMs();
  const sample = await subject.driver.run({
    load: {
      callers,
      turns: Math.max(callers, turns),
      messages: [...MESSAGES],
      maxTokens: MAX_TOKENS,
      bannedTokens: [],
      stream: true,
      expected: { text: EXPECTED_ANSWER },
    },
    ...(subject.target === undefined ? {} : { target: subject.target }),
  });
  const used = cpuMs().map((ms, at) => ms - (before[at] ?? 0));
  const serverCpuMs = subject.processes.flatMap(({ name }, at): [string, number][] => {
    const ms = used[at] ?? Number.NaN;
    return Number.isNaN(ms) ? [] : [[name, ms]];
  });
  return { ...sample, serverCpuMs: Object.fromEntries(serverCpuMs) };
};

/** All rounds; samples by place, slots and callers. */
const measureAll = async (
  subjects: readonly Subject[],
  { rounds, turns, warmUpTurns }: (typeof EFFORTS)[keyof typeof EFFORTS],
): Promise<Map<string, Measured[]>> => {
  progress("warming up");
  for (const subject of subjects) await measure(subject, WARM_UP_CALLERS, warmUpTurns);
  const plan = subjects.flatMap((subject) => CALLERS.map((callers) => ({ subject, callers })));
  const samples = new Map<string, Measured[]>();
  for (let round = 0; round < rounds; round++) {
    progress(`round ${round + 1} of ${rounds}`);
    // Each round begins somewhere else in the plan.
    const first = Math.floor((round * plan.length) / rounds);
    for (const { subject, callers } of [...plan.slice(first), ...plan.slice(0, first)]) {
      const key = keyOf({ place: subject.place, slots: subject.slots, callers });
      samples.set(key, [...(samples.get(key) ?? []), await measure(subject, callers, turns)]);
    }
  }
  return samples;
};

const keyOf = ({ place, slots, callers }: Combination): string => `${place}/${slots}/${callers}`;

const toRows = (samples: ReadonlyMap<string, readonly Measured[]>): Row[] =>
  SLOTS.flatMap((slots) =>
    CALLERS.flatMap((callers) =>
      placeNames.map((place, at) => {
        const before = placeNames[at - 1];
        return toRow(
          { place, slots, callers },
          samples.get(keyOf({ place, slots, callers })) ?? [],
          before && samples.get(keyOf({ place: before, slots, callers })),
        );
      }),
    ),
  );

const memoryOf = (subjects: readonly Subject[], client: Driver) => {
  const processes = subjects.flatMap(({ place, slots, driver, processes: serving }) => {
    if (place === "native") return [{ name: `native decoder, slots ${slots}`, pid: driver.pid }];
    return place === "edge" ? serving.map(({ name, pid }) => ({ name: `${name}, slots ${slots}`, pid })) : [];
  });
  const mib = (bytes: number | undefined) => (bytes === undefined ? null : Math.round(bytes / 2 ** 20));
  return [...processes, { name: "client of the bench", pid: client.pid }].map(({ name, pid }) => {
    const memory = residentMemory(pid);
    return { name, residentMib: mib(memory?.nowBytes), peakMib: mib(memory?.peakBytes) };
  });
};

const machine = () => ({ ...describeMachine(), llamaCpp: llamaVersion });

const bench = async (options: Options): Promise<number> => {
  const interrupted = Promise.withResolvers<"interrupted">();
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(signal, () => interrupted.resolve("interrupted"));
  }
  const startedMs = performance.now();
  const about = machine();
  await using children = new BenchChildren();
  const work = async () => {
    progress("starting native decoders, agents and edges");
    const { subjects, client } = await startSubjects(children, options.profileDirectory);
    const samples = await measureAll(subjects, EFFORTS[options.quick ? "quick" : "full"]);
    return { rows: toRows(samples), memory: memoryOf(subjects, client) };
  };
  const working = work();
  const ended = await Promise.race([working, interrupted.promise]);
  if (ended === "interrupted") {
    progress("interrupted; stopping what was started");
    working.catch(() => undefined); // what it measures goes away under it
    return exitCodes.interrupted;
  }
  const { rows, memory } = ended;
  const seconds = Math.round((performance.now() - startedMs) / 1000);
  const memoryTable = formatFigures(
    ["process", "resident MiB", "peak MiB"],
    memory.map(({ name, residentMib, peakMib }) => [name, String(residentMib ?? "-"), String(peakMib ?? "-")]),
  );
  process.stdout.write(
    `${machineLine(about)}, llama.cpp ${about.llamaCpp}\n` +
      `Built-in model, one replica, one compute thread, "${QUESTION}"; every answer exact.\n\n` +
      `${formatRows(rows)}\n\n${memoryTable}\n\n${seconds} s in all\n`,
  );
  if (options.jsonFile !== undefined) {
    writeFileSync(
      options.jsonFile,
      `${JSON.stringify({ machine: about, question: QUESTION, seconds, rows, memory }, null, 2)}\n`,
    );
  }
  return exitCodes.ok;
};

await runScript(readOptions(process.argv.slice(2)), bench, progress);
