/**
 * `gpu-agent bench control`: what the agent's own machinery costs a turn, without model and HTTP. Reader, pump, lock and scheme over true
 * pipes against a symbolic engine; the peer is a plain Python pump over the same engine, and the floor a bare pipe, in the same rounds.
 *
 * Rounds rotate through all of them, so that a machine whose speed drifts treats them alike. Figures are milliseconds.
 */
import { execFileSync, spawn } from "node:child_process";
import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync } from "node:fs";
import { Socket } from "node:net";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { quantile } from "../bench/quantile.ts";
import { exitCodes } from "../config/exit-codes.ts";
import { entryPath } from "../host/host-command.ts";
import { systemClock } from "../replicas/clock.ts";
import type { SpawnEngine } from "../replicas/engine.ts";
import { defaultReplicaLimits } from "../replicas/limits.ts";
import type { OpenTurn } from "../replicas/owned-turn.ts";
import { ReplicaPool } from "../replicas/pool.ts";
import { Replica } from "../replicas/replica.ts";
import { formatGenerate, quitLine } from "../replicas/wire.ts";
import { type SubjectName, subjects } from "./subjects/index.ts";

const peerScript = fileURLToPath(new URL("../bench/control_peer.py", new URL(`file://${entryPath}`)));

const TOKENS_PER_TURN = 13;
const LINE_END = 10;
/** Long enough for an engine to have gone back to waiting for its next line (measured: from 0.01 ms on nothing changes). */
const ENGINE_IDLE_MS = 0.05;
const ROUNDS = 8;
const shapes = [
  { name: "65 IDs", promptIds: 65, samples: 2000, warmUp: 100 },
  { name: "4097 IDs", promptIds: 4097, samples: 640, warmUp: 100 },
] as const;

const schemeNames = ["original", "A", "B", "C"] as const satisfies readonly SubjectName[];

interface Samples {
  readonly first: number[];
  readonly whole: number[];
}

interface Contender {
  readonly name: string;
  run(samples: number, promptIds: number): Promise<Samples>;
  close(): Promise<void>;
}

/** A producer on two named pipes: Node's own child pipes are socket pairs. */
const spawnOnPipes = (python: string, directory: string, name: string): SpawnEngine => {
  return (events) => {
    const [down, up] = [join(directory, `${name}.in`), join(directory, `${name}.out`)];
    execFileSync("mkfifo", [down, up]);
    // Opened for both ways, so that opening does not wait for the other side; twice, for a socket makes its description non-blocking.
    const theirs = [openSync(down, "r+"), openSync(up, "r+")] as const;
    const child = spawn(python, [peerScript, "producer"], { stdio: [...theirs, "inherit"] });
    const input = new Socket({ fd: openSync(down, "r+"), readable: false, writable: true });
    const output = new Socket({ fd: openSync(up, "r+"), readable: true, writable: false });
    for (const fd of theirs) closeSync(fd);
    output.on("data", events.output);
    child.on("exit", (code, signal) => {
      input.destroy();
      output.destroy();
      events.exit({ code, signal });
    });
    return {
      pid: child.pid,
      write: (line) => void (input.writable && input.write(line)),
      kill: (signal) => void child.kill(signal),
      pause: () => void output.pause(),
      resume: () => void output.resume(),
    };
  };
};

const openScheme = async (name: SubjectName, python: string, directory: string): Promise<Contender> => {
  const replica = new Replica({
    index: 0,
    clock: systemClock,
    limits: defaultReplicaLimits,
    spawn: spawnOnPipes(python, directory, name),
  });
  await replica.firstReady;
  const pool = new ReplicaPool([replica]);
  const open: OpenTurn = subjects[name]();
  return {
    name,
    run: async (samples, promptIds) => {
      const prompt = Int32Array.from({ length: promptIds }, (_, at) => at + 1);
      const times: Samples = { first: [], whole: [] };
      for (let sample = 0; sample < samples; sample++) {
        const { signal } = new AbortController(); // one a turn, as a server has one a request
        const startMs = performance.now();
        const request = { prompt, maxTokens: 64, sampling: {}, salt: "" };
        const turn = open(pool.admit(request, signal), request, signal);
        let got = 0;
        for (let run = await turn.tokens.next(); !run.done; run = await turn.tokens.next()) {
          if (got === 0) times.first.push(performance.now() - startMs);
          got += run.value.length;
        }
        times.whole.push(performance.now() - startMs);
        if (got !== TOKENS_PER_TURN || turn.statistics()?.promptTokens !== promptIds)
          throw new Error(`${name}: a turn came back wrong`);
      }
      return times;
    },
    close: () => pool.stop(),
  };
};

/**
 * The floor: the same bytes on the same pipes by this runtime, and nothing else. The line is made beforehand; of the answer only line ends
 * are counted. Each turn begins when the engine sleeps again, as it does behind an agent: one that still runs takes the next line without
 * having to be woken, which halves the time on some runs and not on others.
 */
const openBarePipe = async (python: string, directory: string): Promise<Contender> => {
  const exited = Promise.withResolvers<void>();
  let onLines: (lines: number) => void = () => {};
  const ready = new Promise<void>((resolve) => {
    onLines = () => resolve();
  });
  const engine = spawnOnPipes(
    python,
    directory,
    "bare",
  )({
    output: (chunk) => {
      let lines = 0;
      for (let at = chunk.indexOf(LINE_END); at !== -1; at = chunk.indexOf(LINE_END, at + 1)) lines++;
      onLines(lines);
    },
    end: () => {},
    exit: () => exited.resolve(),
  });
  await ready;
  return {
    name: "bare pipe",
    run: async (samples, promptIds) => {
      const prompt = Int32Array.from({ length: promptIds }, (_, at) => at + 1);
      const address = { slot: undefined, turn: undefined };
      const line = formatGenerate({ prompt, maxTokens: 64, sampling: {}, salt: "" }, address);
      const times: Samples = { first: [], whole: [] };
      for (let sample = 0; sample < samples; sample++) {
        for (const idleFromMs = performance.now(); performance.now() - idleFromMs < ENGINE_IDLE_MS; );
        const startMs = performance.now();
        await new Promise<void>((resolve) => {
          let got = 0;
          onLines = (lines) => {
            if (got === 0) times.first.push(performance.now() - startMs);
            got += lines;
            if (got === TOKENS_PER_TURN + 1) resolve();
          };
          engine.write(line);
        });
        times.whole.push(performance.now() - startMs);
      }
      return times;
    },
    close: () => {
      engine.write(quitLine);
      return exited.promise;
    },
  };
};

const peerAnswer = z.object({ first: z.array(z.number()), whole: z.array(z.number()) });

const openPythonPump = (python: string): Contender => {
  const child = spawn(python, [peerScript, "pump"], { stdio: ["pipe", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    name: "Python pump",
    run: async (samples, promptIds) => {
      child.stdin.write(`${samples} ${promptIds}\n`);
      const line = await lines.next();
      if (line.done) throw new Error("the Python pump ended");
      return peerAnswer.parse(JSON.parse(line.value));
    },
    close: async () => {
      child.stdin.end();
      await new Promise((resolve) => child.once("exit", resolve));
    },
  };
};

interface Row {
  readonly shape: string;
  readonly contender: string;
  readonly samples: number;
  readonly firstP50Ms: number;
  readonly firstP99Ms: number;
  readonly wholeP50Ms: number;
  readonly wholeP99Ms: number;
}

const rounded = (ms: number): number => Math.round(ms * 1000) / 1000;

const formatRows = (rows: readonly Row[]): string =>
  [
    `${"shape".padEnd(10)}${"contender".padEnd(14)}${"samples".padStart(8)}${"first p50".padStart(11)}${"first p99".padStart(11)}${"whole p50".padStart(11)}${"whole p99".padStart(11)}  first p50 : Python's`,
    ...rows.map((row) => {
      const peer = rows.find(({ shape, contender }) => shape === row.shape && contender === "Python pump");
      const ratio = peer === undefined ? "" : (row.firstP50Ms / peer.firstP50Ms).toFixed(2);
      const figures = [row.firstP50Ms, row.firstP99Ms, row.wholeP50Ms, row.wholeP99Ms]
        .map((ms) => ms.toFixed(3).padStart(11))
        .join("");
      return `${row.shape.padEnd(10)}${row.contender.padEnd(14)}${String(row.samples).padStart(8)}${figures}  ${ratio}`;
    }),
  ].join("\n");

/** Runs the benchmark; prints the table, and writes JSON where a file is named. Resolves with the exit code. */
export const runControlBench = async (
  jsonFile: string | undefined,
  terminal: { readonly writeOut: (text: string) => void; readonly writeError: (text: string) => void },
): Promise<number> => {
  const python = "python3";
  try {
    execFileSync(python, ["--version"], { stdio: "ignore" });
  } catch {
    terminal.writeError(
      "gpu-agent: bench control needs python3 for its engine and its peer: apt-get install -y python3\n",
    );
    return exitCodes.unavailable;
  }
  const directory = mkdtempSync(join(tmpdir(), "lockgate-bench-"));
  const contenders: Contender[] = [];
  try {
    for (const name of schemeNames) contenders.push(await openScheme(name, python, directory));
    contenders.push(openPythonPump(python), await openBarePipe(python, directory));
    const rows: Row[] = [];
    let heapGrowthBytesPerTurn = 0;
    for (const shape of shapes) {
      const gathered = new Map<string, Samples>(contenders.map(({ name }) => [name, { first: [], whole: [] }]));
      for (const contender of contenders) await contender.run(shape.warmUp, shape.promptIds);
      const heapBefore = heapUsedAfterGc();
      for (let round = 0; round < ROUNDS; round++) {
        terminal.writeError(`${shape.name}: round ${round + 1} of ${ROUNDS}\n`);
        for (let at = 0; at < contenders.length; at++) {
          const contender = contenders[(at + round) % contenders.length] as Contender;
          const { first, whole } = await contender.run(shape.samples / ROUNDS, shape.promptIds);
          gathered.get(contender.name)?.first.push(...first);
          gathered.get(contender.name)?.whole.push(...whole);
        }
      }
      const keptFigures = contenders.length * shape.samples * 2 * 8;
      heapGrowthBytesPerTurn = Math.max(
        heapGrowthBytesPerTurn,
        (heapUsedAfterGc() - heapBefore - keptFigures) / (schemeNames.length * shape.samples),
      );
      for (const [contender, { first, whole }] of gathered) {
        rows.push({
          shape: shape.name,
          contender,
          samples: first.length,
          firstP50Ms: rounded(quantile(first, 0.5)),
          firstP99Ms: rounded(quantile(first, 0.99)),
          wholeP50Ms: rounded(quantile(whole, 0.5)),
          wholeP99Ms: rounded(quantile(whole, 0.99)),
        });
      }
    }
    const machine = `${cpus().length} x ${cpus()[0]?.model ?? "unknown CPU"}, Node ${process.versions.node}`;
    terminal.writeOut(
      `${machine}\n${formatRows(rows)}\nheap growth: ${heapGrowthBytesPerTurn.toFixed(1)} bytes a turn\n`,
    );
    if (jsonFile !== undefined)
      writeFileSync(jsonFile, `${JSON.stringify({ machine, rows, heapGrowthBytesPerTurn }, null, 2)}\n`);
    return exitCodes.ok;
  } finally {
    await Promise.all(contenders.map((contender) => contender.close()));
    rmSync(directory, { recursive: true, force: true });
  }
};

/** Needs --expose-gc to mean much; without it the figure holds garbage too. */
const heapUsedAfterGc = (): number => {
  globalThis.gc?.();
  return process.memoryUsage().heapUsed;
};
