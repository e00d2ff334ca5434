/**
 * Faults that only a real process has, once each, with the real spawn, pipes, clock and signals: death, SIGSTOP, a stdin that nobody reads, a
 * stdout that fills. After each a successor is served by the next process.
 */
import { fileURLToPath } from "node:url";
import test, { type ExecutionContext } from "ava";
import { createOwners } from "../../gpu-agent/src/ownership/scheme-c.ts";
import { systemClock } from "../../gpu-agent/src/replicas/clock.ts";
import type { EngineProcess } from "../../gpu-agent/src/replicas/engine.ts";
import { spawnEngineProcess } from "../../gpu-agent/src/replicas/engine-process.ts";
import { EngineLost, EngineSilent } from "../../gpu-agent/src/replicas/errors.ts";
import { defaultReplicaLimits, type ReplicaLimits } from "../../gpu-agent/src/replicas/limits.ts";
import { type OpenTurn, type OwnedTurn, openOwnedTurn } from "../../gpu-agent/src/replicas/owned-turn.ts";
import { ReplicaPool } from "../../gpu-agent/src/replicas/pool.ts";
import { Replica, type ReplicaState } from "../../gpu-agent/src/replicas/replica.ts";

const engineFile = fileURLToPath(new URL("../helpers/schedule/scripted-engine.ts", import.meta.url));

/** Short, so that a test does not wait long for what it waits for; long enough for a busy machine to answer in. */
const limits: ReplicaLimits = { ...defaultReplicaLimits, silenceMs: 2_000, drainMs: 1_000, healCooldownMs: 1 };

type Manner = "plain" | "hold" | "deaf" | "flood";

interface Rig {
  readonly pool: ReplicaPool;
  /** Processes so far, the newest last. */
  readonly processes: readonly EngineProcess[];
  readonly stderr: readonly string[];
  /** Resolves when the replica is in the state. */
  reached(state: ReplicaState): Promise<void>;
  open(maxTokens: number, options?: { prompt?: readonly number[]; signal?: AbortSignal; open?: OpenTurn }): OwnedTurn;
}

/** One replica whose first process behaves as said, and every later one plainly. */
const rig = async (t: ExecutionContext, first: Manner): Promise<Rig> => {
  const processes: EngineProcess[] = [];
  const stderr: string[] = [];
  const waiting = new Map<ReplicaState, () => void>();
  const replica = new Replica({
    index: 0,
    clock: systemClock,
    limits,
    onState: (_, state) => waiting.get(state)?.(),
    spawn: (events) => {
      const manner = processes.length === 0 ? first : "plain";
      const args = [engineFile, manner];
      const spawn = spawnEngineProcess({ command: process.execPath, args, onStderr: (line) => stderr.push(line) });
      const made = spawn(events);
      processes.push(made);
      return made;
    },
  });
  const pool = new ReplicaPool([replica]);
  t.teardown(() => pool.stop());
  await replica.firstReady;
  return {
    pool,
    processes,
    stderr,
    reached: (state) => new Promise((resolve) => waiting.set(state, resolve)),
    open: (maxTokens, { prompt = [1, 2, 3], signal = new AbortController().signal, open = openOwnedTurn } = {}) => {
      const request = { prompt, maxTokens, sampling: {}, salt: "" };
      return open(pool.admit(request, signal), request, signal);
    },
  };
};

const all = async (turn: OwnedTurn): Promise<number[]> => {
  const tokens: number[] = [];
  for (let run = await turn.tokens.next(); !run.done; run = await turn.tokens.next()) tokens.push(...run.value);
  return tokens;
};

const lives = (pid: number | undefined): boolean => {
  try {
    return process.kill(pid ?? 0, 0);
  } catch {
    return false;
  }
};

/** The books are balanced, the first process is gone, and the next one serves. */
const recovers = async (t: ExecutionContext, { pool, processes, open, reached }: Rig): Promise<void> => {
  t.is(pool.inflight, 0);
  if (processes.length === 1 || !pool.replicas[0]?.engine?.usable) await reached("ready");
  t.false(lives(processes[0]?.pid));
  const successor = open(3);
  t.deepEqual(await all(successor), [1, 2, 3]);
  t.is(successor.statistics()?.generated, 3);
  t.is(processes.length, 2);
};

test("an engine that dies during decode is told to the turn it ran and to the turn that waited", async (t) => {
  const held = await rig(t, "hold");
  const running = held.open(8);
  const waiting = held.open(8);
  await running.tokens.next();
  process.kill(held.processes[0]?.pid ?? 0, "SIGKILL");
  await t.throwsAsync(running.tokens.next(), { instanceOf: EngineLost, message: /SIGKILL|output ended/ });
  await t.throwsAsync(waiting.tokens.next(), { instanceOf: EngineLost });
  t.is(running.statistics(), null);
  await recovers(t, held);
});

test("an engine stopped by SIGSTOP during decode is killed after the silence limit", async (t) => {
  const held = await rig(t, "hold");
  const turn = held.open(8);
  await turn.tokens.next();
  process.kill(held.processes[0]?.pid ?? 0, "SIGSTOP");
  await t.throwsAsync(turn.tokens.next(), { instanceOf: EngineSilent });
  await recovers(t, held);
});

test("an engine stopped by SIGSTOP does not hold a caller that closes longer than the drain allowance", async (t) => {
  const held = await rig(t, "hold");
  const turn = held.open(8);
  await turn.tokens.next();
  process.kill(held.processes[0]?.pid ?? 0, "SIGSTOP");
  await t.throwsAsync(turn.tokens.return(), { instanceOf: EngineSilent, message: /drain allowance/ });
  await recovers(t, held);
});

test("an engine continued by SIGCONT within the drain allowance answers the STOP, and lives on", async (t) => {
  const held = await rig(t, "hold");
  const turn = held.open(8);
  await turn.tokens.next();
  const pid = held.processes[0]?.pid ?? 0;
  process.kill(pid, "SIGSTOP");
  const closed = turn.tokens.return();
  process.kill(pid, "SIGCONT");
  await closed;
  t.is(turn.statistics()?.finish, "cancel");
  t.true(lives(pid));
});

test("a stdin that nobody reads blocks no one, and its engine is killed", async (t) => {
  const deaf = await rig(t, "deaf");
  // Several times what a pipe holds.
  const prompt = new Array<number>(300_000).fill(123456);
  const turn = deaf.open(8, { prompt });
  const waiting = deaf.open(8, { prompt });
  await t.throwsAsync(turn.tokens.next(), { instanceOf: EngineSilent });
  await t.throwsAsync(waiting.tokens.next(), { instanceOf: EngineLost });
  await recovers(t, deaf);
});

test("a stdout that fills while scheme C holds the pipe back stops the engine, and no token is lost", async (t) => {
  const tokens = 400_000;
  /** Tokens that can lie between engine and caller: pipes, chunks, lane and channel; far below what the engine has to say. */
  const MAX_ON_THE_WAY = 100_000;
  const flooding = await rig(t, "flood");
  const turn = flooding.open(tokens, { open: createOwners() });
  let received = 0;
  let receivedWhenWritten: number | undefined;
  let inOrder = true;
  for (let run = await turn.tokens.next(); !run.done; run = await turn.tokens.next()) {
    for (const id of run.value) inOrder &&= id === ++received;
    if (flooding.stderr.length > 0) receivedWhenWritten ??= received;
    // A consumer that gives the pump every chance to read on.
    await new Promise((resolve) => setImmediate(resolve));
  }
  t.true(inOrder);
  t.is(received, tokens);
  t.is(turn.statistics()?.generated, tokens);
  t.log(`${receivedWhenWritten} of ${tokens} tokens were taken when the last was written`);
  t.true((receivedWhenWritten ?? received) > tokens - MAX_ON_THE_WAY, `${receivedWhenWritten} when all was written`);
});
