/**
 * What must hold: after every step, at the end of each turn, and when nothing is under way any more. Each check says which rule is broken,
 * in words; the first one broken is the schedule's result.
 */
import type { DoneStatistics } from "@lockgate/shared-types";
import {
  EngineLost,
  EngineRefused,
  EngineSilent,
  NoReplica,
  QueueFull,
} from "../../../gpu-agent/src/replicas/errors.ts";
import type { Caller } from "./caller.ts";
import { promptMsOf, promptOf, tokensOf } from "./engine-model.ts";
import type { ScheduledProcess } from "./scheduled-process.ts";
import { hasSharedStatistics, shapes } from "./scope.ts";
import type { World } from "./world.ts";
import { limits } from "./world-limits.ts";

/** Messages besides tokens that one lane can hold: RESUME, the last PP, DONE. */
const LANE_MESSAGES = 3;
/** Commands that an engine can have before it per lane: GEN, its STOP, and a stale STOP of the turn before. */
const COMMANDS_PER_LANE = 3;

const isOwn = (statistics: DoneStatistics, caller: number): boolean =>
  statistics.promptTokens === promptOf(caller).length && statistics.promptMs === promptMsOf(caller);

const foreign = (caller: Caller, statistics: DoneStatistics): string =>
  `turn ${caller.number} has the statistics of a turn with ${statistics.promptTokens} prompt tokens; its own has ${promptOf(caller.number).length}`;

/** A GEN is being written: one owner, and its predecessor's DONE was read. */
export const checkGenerate = (world: World, process: ScheduledProcess, slot: number, number: number): void => {
  const caller = world.callers[number - 1];
  if (caller === undefined) {
    world.broke(`GEN of a turn ${number} that nobody asked for`);
    return;
  }
  caller.process = process;
  if (world.scope.callersOnly) return;
  if (caller.aborted) world.broke(`turn ${number} wrote GEN after it was aborted`);
  if (caller.state === "ended") world.broke(`turn ${number} wrote GEN after it was over`);
  const engine = world.engineOf(process);
  const passedOver = world.callers.find(
    ({ number: other, lease, admission }) => other < number && lease === "waiting" && admission?.engine === engine,
  );
  if (passedOver !== undefined)
    world.broke(`turn ${number} wrote GEN before turn ${passedOver.number}, which came first`);
  const queued = engine?.lanes[slot]?.queued ?? 0;
  if (queued > 0) world.broke(`turn ${number} wrote GEN while ${queued} messages of its predecessor were not read`);
};

/** An engine is being killed: it must have done something, or its time must be over. */
export const checkKill = (world: World, process: ScheduledProcess): void => {
  if (process.cause !== undefined) return;
  const reason = world.engineOf(process)?.lostReason ?? "";
  process.cause = reason;
  const [allowedMs, sinceMs] = reason.includes("drain allowance")
    ? [limits.drainMs, process.stoppedAtMs]
    : reason.includes("silence limit")
      ? [limits.silenceMs, process.quietSinceMs]
      : reason.includes("READY in time")
        ? [limits.readyTimeoutMs, 0]
        : [undefined, 0];
  const at = `replica ${process.replica}`;
  if (allowedMs === undefined) world.broke(`${at} was given up for nothing: ${reason}`);
  // The slots of a batched engine are quiet each for itself.
  else if (process.model.lanes === 1 && world.clock.now() - sinceMs < allowedMs)
    world.broke(`${at} was given up before its time: ${reason}`);
};

/** A replica is being given up for good: its process must have outlived SIGKILL for the time it has. */
export const checkAbandoned = (world: World, process: ScheduledProcess): void => {
  if (!process.killed || !process.alive || world.clock.now() - process.killedAtMs < limits.killTimeoutMs)
    world.broke(`replica ${process.replica} was abandoned, though its process did not outlive SIGKILL`);
};

/** After every step. */
export const checkStep = (world: World): void => {
  const shared = hasSharedStatistics(world.scope);
  let open = 0;
  for (const caller of world.callers) {
    if (caller.open) open++;
    if (!shared) {
      const statistics = caller.statistics();
      if (statistics !== null && !isOwn(statistics, caller.number)) world.broke(foreign(caller, statistics));
    }
    if (caller.state === "ended" && !caller.judged) {
      caller.judged = true;
      judgeEnd(world, caller);
    }
    if (shared && caller.read && !caller.readJudged) {
      caller.readJudged = true;
      judgeStatistics(world, caller);
    }
  }
  if (world.scope.callersOnly) return;
  for (const caller of world.callers) checkEndingIsUnderWay(world, caller);
  const { inflight } = world.pool;
  if (inflight > open) world.broke(`${inflight} turns are counted as in flight, ${open} are open`);
  if (world.clock.armed > 0 && isAtRest(world)) world.broke(`${world.clock.armed} timers are armed for nobody`);
  const boundOfLane = tokensOf(shapes[world.scope.shape]) + LANE_MESSAGES;
  for (const { index, engine, inflight: here } of world.pool.replicas) {
    const process = world.processes[index];
    if (engine === undefined || process === undefined || world.engineOf(process) === undefined) continue;
    if (process.cause !== undefined && engine.usable) world.broke(`replica ${index} is used on after ${process.cause}`);
    if (here < 0) world.broke(`replica ${index} counts ${here} turns in flight`);
    if (engine.leases.waiting > limits.maxWaiting)
      world.broke(`${engine.leases.waiting} turns wait at replica ${index}`);
    if (engine.leases.held > open) world.broke(`${engine.leases.held} leases of replica ${index} are held by nobody`);
    for (const [slot, lane] of engine.lanes.entries()) {
      if (lane.queued > boundOfLane) world.broke(`lane ${slot} of replica ${index} holds ${lane.queued} messages`);
      if (engine.usable && process.out(slot) && here === 0)
        world.broke(`a turn is out on replica ${index}, which counts none`);
    }
    if (process.model.commands.length > COMMANDS_PER_LANE * process.model.lanes)
      world.broke(`${process.model.commands.length} commands lie before replica ${index}`);
  }
};

/** Nothing runs, waits, heals or dies: then no timer may be left that somebody forgot. */
const isAtRest = (world: World): boolean =>
  world.callers.every(({ open }) => !open) &&
  world.pool.replicas.every(({ state }) => state === "ready" || state === "abandoned");

/** A turn that is to end must not go on: it is told at once while it waits, and stopped at once while it runs. */
const checkEndingIsUnderWay = (world: World, caller: Caller): void => {
  const { number, state, process, admission } = caller;
  const aborted = state === "pulling" && caller.aborted;
  if (!aborted && (state !== "closing" || caller.pullIsOut)) return;
  if (process === undefined) {
    if (aborted && caller.lease !== "granted")
      world.broke(`turn ${number} was aborted while it waited, and is not told`);
    return;
  }
  const stopped = process.books.every(
    (books, slot) => !process.out(slot) || books.caller !== number || books.stops > 0,
  );
  if (!stopped && admission?.engine.usable) world.broke(`turn ${number} is to end, and its engine is not told to stop`);
};

/** A turn is over: the right answer, or an error that something explains. */
const judgeEnd = (world: World, caller: Caller): void => {
  const { number, failure, endings, received } = caller;
  const all = tokensOf(shapes[world.scope.shape]);
  if (failure !== undefined) {
    const wrong = unexplained(world, caller, failure.error);
    if (wrong !== undefined) world.broke(`turn ${number} ${wrong}`);
  } else if (endings.length === 0 && received !== all) {
    world.broke(`turn ${number} ended as if it were complete, with ${received} of ${all} tokens`);
  }
  if (hasSharedStatistics(world.scope)) return;
  judgeStatistics(world, caller);
  const finish = caller.statistics()?.finish;
  if (failure === undefined && endings.length === 0 && finish !== "stop")
    world.broke(`turn ${number} ended with ${finish}, which nobody asked for`);
};

/** The turn's own statistics: always when its DONE was read; else none. */
const judgeStatistics = (world: World, caller: Caller): void => {
  const { number, process, failure } = caller;
  const statistics = caller.statistics();
  if (statistics !== null) {
    if (!isOwn(statistics, number)) world.broke(foreign(caller, statistics));
    if (!Object.isFrozen(statistics)) world.broke(`the statistics of turn ${number} can be changed`);
    if (process === undefined) world.broke(`turn ${number} has statistics, but was never written to an engine`);
    return;
  }
  // An engine that was lost while the turn was drained is an error that reaches the caller; ERR ends a turn that is closed quietly.
  if (process !== undefined && failure === undefined && !caller.refused)
    world.broke(`turn ${number} ended without its statistics`);
};

/** What is wrong with an error that reached a caller; undefined when something explains it. */
const unexplained = (world: World, caller: Caller, error: unknown): string | undefined => {
  const { admission, ownError } = caller;
  const lost = admission !== undefined && (admission.engine.lostReason !== undefined || admission.engine.leases.closed);
  if (error !== undefined && (error === caller.ownError || error === caller.abortReason)) return undefined;
  const known =
    (error instanceof QueueFull && admission === undefined) ||
    (error instanceof NoReplica && caller.foundNone) ||
    (error instanceof EngineRefused && caller.refused) ||
    (error instanceof EngineLost && lost && !caller.cameToClosed) ||
    (error instanceof EngineSilent && lost && world.timersFired > 0);
  const text = error instanceof Error ? `${error.constructor.name}: ${error.message}` : String(error);
  if (!known) return `failed for no reason: ${text}`;
  if (ownError !== undefined && (error as Error).cause !== ownError) return `lost its own error to ${text}`;
  return undefined;
};

/** Nothing is under way any more: all were told, all is free, nothing is left in memory. */
export const checkRest = (world: World): void => {
  for (const { number, state } of world.callers)
    if (state !== "ended" && state !== "outside") world.broke(`turn ${number} never ends (${state})`);
  if (world.scope.callersOnly) return;
  if (world.pool.inflight !== 0) world.broke(`${world.pool.inflight} turns are in flight at the end`);
  for (const { index, engine, state } of world.pool.replicas) {
    if (state === "abandoned") continue;
    if (engine === undefined || !engine.usable) {
      world.broke(`replica ${index} never comes back (${state})`);
      continue;
    }
    if (engine.leases.held !== 0) world.broke(`${engine.leases.held} leases of replica ${index} are never released`);
    if (engine.leases.waiting !== 0) world.broke(`${engine.leases.waiting} turns wait at replica ${index} for ever`);
    for (const lane of engine.lanes) {
      if (lane.running) world.broke(`a lane of replica ${index} runs for ever`);
      if (lane.queued !== 0) world.broke(`${lane.queued} messages of replica ${index} are never read`);
    }
  }
};
