/**
 * `gpu-agent serve` from configuration to exit: loads the vocabulary, starts the replicas, listens, and on a signal drains and ends.
 * Returns an exit code; only the CLI ends the process.
 */
import { readdirSync, readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { isatty } from "node:tty";
import { getRequestListener } from "@hono/node-server";
import { exitCodes } from "./config/exit-codes.ts";
import type { ServeConfig, ServeConfigResult } from "./config/load-serve-config.ts";
import { LOCAL_KEY_VARIABLE, SIGNING_KEYS_VARIABLE } from "./config/secrets.ts";
import { engineStart, exitCodeOfStart } from "./host/engine-start.ts";
import { exitCodeOfNativeError } from "./host/replica-host.ts";
import { createApp } from "./http/app.ts";
import { answerBadRequests, malformedRequest } from "./http/bad-requests.ts";
import { listen } from "./http/listen.ts";
import { watchUntouchedConnections } from "./http/untouched-connections.ts";
import { warmUp } from "./http/warm-up.ts";
import { LiveConfig } from "./live-config.ts";
import type { Log } from "./log.ts";
import { AgentMetrics } from "./metrics/agent-metrics.ts";
import { openMetricsServer } from "./metrics/metrics-server.ts";
import { gpuNames, unusedGpuReason } from "./models/devices.ts";
import { ServedModel } from "./models/served-model.ts";
import { placeCores, placeDevices } from "./placement.ts";
import { systemClock } from "./replicas/clock.ts";
import type { SpawnEngine } from "./replicas/engine.ts";
import { spawnEngineProcess } from "./replicas/engine-process.ts";
import { StartFailed } from "./replicas/errors.ts";
import { defaultReplicaLimits, type ReplicaLimits } from "./replicas/limits.ts";
import type { OpenTurn } from "./replicas/owned-turn.ts";
import { ReplicaPool } from "./replicas/pool.ts";
import { cpuTimeMs } from "./replicas/process-cpu.ts";
import { Replica, type ReplicaOptions } from "./replicas/replica.ts";
import type { LifeState } from "./replicas/replica-state.ts";
import { openWireLog } from "./replicas/wire-log.ts";
import { readAllowedCpus, readPhysicalCores } from "./topology.ts";
import { AdmissionQueue } from "./turn/admission-queue.ts";
import { Pace } from "./turn/pace.ts";
import { openUsage } from "./usage/open-usage.ts";

/** Idle connections stay open longer than an edge keeps them (a shorter time loses requests that meet the close). */
const KEEP_ALIVE_TIMEOUT_MS = 90_000;
/** How often connections that have become idle are closed, and turns that still run are counted, while the agent drains. */
const DRAIN_SWEEP_MS = 20;
/** Lines of a replica's stderr that are kept until it is READY, to say why it was not. */
const KEPT_STDERR_LINES = 20;

export interface ServeTerminal {
  readonly writeOut: (text: string) => void;
  readonly writeError: (text: string) => void;
}

/** What decides how turns own their replicas; `serve` has one answer, test compositions have others. */
export interface ServeComposition {
  readonly open: OpenTurn;
  /** Arms the hand-over of one replica's leases; absent in serving. */
  readonly handOver?: (replica: number) => ReplicaOptions["handOver"];
  /** Stands between the engine's process and its reader; absent in serving. */
  readonly wrapSpawn?: (spawn: SpawnEngine) => SpawnEngine;
}

/** Runs the agent until a signal ends it. Resolves with the exit code after a one-line reason on stderr where it is not 0. */
export const serve = async (
  config: ServeConfig,
  terminal: ServeTerminal,
  composition: ServeComposition,
  /** Reads the configuration anew at SIGHUP; absent: there is nothing to read. */
  readAgain?: () => ServeConfigResult,
): Promise<number> => {
  const fail = (exitCode: number, message: string): number => {
    terminal.writeError(`gpu-agent: ${message}\n`);
    return exitCode;
  };
  const startedAtMs = Date.now();
  const live = new LiveConfig(config, startedAtMs, terminal.writeError);
  const { log } = live;

  let model: ServedModel;
  try {
    model = await ServedModel.load(config.modelPath, config.modelName, startedAtMs);
  } catch (error) {
    return fail(exitCodeOfNativeError(error), (error as Error).message);
  }
  // Which GPUs another engine can use is not ours to guess.
  const gpus = config.engineCommand === undefined ? gpuNames() : undefined;
  const unused = gpus === undefined ? undefined : unusedGpuReason();
  if (unused !== undefined) {
    log("warn", "gpu_unused", { reason: unused, cure: "npm run gpu:cuda in a checkout; gpu-agent doctor says more" });
  }
  const placement = placeDevices(config.replicas, config.devices, gpus ?? []);
  if (!placement.ok) return fail(exitCodes.usage, placement.message);

  const metering = await openUsage(config, () => live.config.signingKeys, log);
  if (!metering.ok) {
    await model.close();
    return fail(metering.exitCode, metering.message);
  }
  const { usage } = metering;

  let draining = false;
  let atOnce = false;
  let dispatch = () => {};
  const metrics = new AgentMetrics(config.replicas, model.name);
  const { pool, stderrOf } = startReplicas(config, placement.devices, gpus, composition, log, metrics, {
    onChange: () => dispatch(),
    // An edge that has last heard of an agent that starts sends it nothing, and one that has not heard of a loss still does.
    onState: () => usage.beatNow(),
  });
  const pace = new Pace();
  const queue = new AdmissionQueue({ pool, clock: systemClock, pace, maxWaiting: config.maxWaitingTurns });
  dispatch = () => queue.dispatch();
  metrics.watch({ replicas: pool.replicas, queued: () => queue.waiting, usage: usage.figures });
  const app = createApp({
    pool,
    queue,
    pace,
    open: composition.open,
    model,
    get verifier() {
      return live.verifier;
    },
    get checkLocalKey() {
      return live.checkLocalKey;
    },
    get writeStallMs() {
      return live.config.writeStallTimeoutMs;
    },
    log,
    logPrompts: config.logPrompts,
    metrics,
    usage: usage.meter,
    usageFigures: usage.figures,
    draining: () => draining,
  });
  const server = createServer(
    // Without a Host Node itself would answer, with an empty body; the adapter refuses it as well.
    { keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS, requireHostHeader: false },
    getRequestListener(app.fetch, { overrideGlobalObjects: false, errorHandler: malformedRequest }),
  );
  answerBadRequests(server);
  const closeUntouched = watchUntouchedConnections(server);
  const signals = watchSignals(config.exitWithStdin, () => {
    if (readAgain === undefined) return;
    live.reload(readAgain);
    queue.maxWaiting = live.config.maxWaitingTurns;
    for (const replica of pool.replicas) replica.setLimits(limitsOf(live.config));
  });
  const inflight = () => pool.inflight + queue.waiting;
  let closeMetricsPort = () => {};
  usage.start(
    {
      replicas: pool.replicas,
      models: [model.name],
      inflight,
      waiting: () => pool.waiting + queue.waiting,
      tokensPerSecond: () => pace.tokensPerSecond,
      draining: () => draining,
    },
    (code) => metrics.deliveryFailed(code),
  );
  try {
    let metricsUrl: string | undefined;
    if (config.metricsPort !== undefined) {
      const opened = await openMetricsServer(metrics, config.metricsHost, config.metricsPort);
      if (!opened.ok) return fail(exitCodes.unavailable, opened.message);
      metricsUrl = opened.url;
      closeMetricsPort = opened.close;
    }
    await warmUp(model);
    const url = await listen(server, config.host, config.port);
    const ended = await Promise.race([
      Promise.all(pool.replicas.map((replica) => replica.firstReady)).then(() => "ready" as const),
      signals.first,
    ]);
    if (ended === "ready") {
      announce(config, model, pool, url, metricsUrl, terminal);
      const signal = await signals.first;
      log("info", "draining", { signal, inflight: pool.inflight });
    }
    draining = true;
    usage.beatNow();
    const drainEndMs = performance.now() + live.config.drainTimeoutMs;
    for (const replica of pool.replicas) replica.drain();
    atOnce = await Promise.race([
      drain(server, closeUntouched, inflight, live.config.drainTimeoutMs)
        .then(() => usage.flush(drainEndMs - performance.now()))
        .then(() => false),
      signals.second.then(() => true),
    ]);
    return exitCodes.ok;
  } catch (error) {
    if (error instanceof StartFailed) {
      const index = pool.replicas.findIndex((replica) => replica.state === "dead" || replica.state === "abandoned");
      const said = stderrOf(Math.max(0, index)).at(-1) ?? error.message;
      return fail(exitCodeOfStart(error.exitCode), `replica ${Math.max(0, index)} did not start: ${said}`);
    }
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EADDRINUSE")
      return fail(
        exitCodes.unavailable,
        `port ${config.port} is taken; choose another with --port, or 0 for a free one`,
      );
    if (code === "EACCES" || code === "EADDRNOTAVAIL" || code === "ENOTFOUND") {
      return fail(
        exitCodes.unavailable,
        `cannot listen on ${config.host}:${config.port} (${code}); check --host and --port`,
      );
    }
    return fail(exitCodes.software, (error as Error).message);
  } finally {
    signals.stop();
    closeMetricsPort();
    server.closeAllConnections();
    server.close();
    if (atOnce) await Promise.all(pool.replicas.map((replica) => replica.kill()));
    await pool.stop();
    await usage.close();
    await model.close();
  }
};

const startReplicas = (
  config: ServeConfig,
  devices: ReadonlyArray<readonly string[] | undefined>,
  /** Those that were found; undefined: only the engine knows. */
  gpus: readonly string[] | undefined,
  composition: ServeComposition,
  log: Log,
  metrics: AgentMetrics,
  heard: {
    /** A slot is free, or a replica came or went: who waits may go now. */
    readonly onChange: () => void;
    /** A replica came or went. */
    readonly onState: () => void;
  },
): { pool: ReplicaPool; stderrOf: (index: number) => readonly string[] } => {
  const readText = (path: string) => readFileSync(path, "utf8");
  const cpus = readAllowedCpus(readText);
  const cores = placeCores(config.replicas, cpus, readPhysicalCores(readText, cpus));
  const stderrLines = devices.map((): string[] => []);
  const environment = { ...process.env, [SIGNING_KEYS_VARIABLE]: undefined, [LOCAL_KEY_VARIABLE]: undefined };
  const replicas = devices.map((own, index) => {
    const lines = stderrLines[index] as string[];
    const armed = composition.handOver?.(index);
    const replica: Replica = new Replica({
      index,
      clock: systemClock,
      limits: limitsOf(config),
      stallWatch: { stallMs: config.stallTimeoutMs, cpuTimeMs: (pid) => cpuTimeMs(pid, readText, readdirSync) },
      handOver: (slot, hasSuccessor) => {
        const leases = replica.engine?.leases;
        const freeBefore = leases?.free ?? 0;
        heard.onChange();
        return armed?.(slot, hasSuccessor || (leases?.free ?? 0) < freeBefore);
      },
      onCacheLost: (lost) => pool.index.forget(lost),
      onState: (_, state, reason, healAtMs) => {
        // Without a reason it is what was asked for.
        const isBad = badStates.has(state) && reason !== "";
        const next = healAtMs === undefined ? {} : { next_heal: new Date(healAtMs).toISOString() };
        log(isBad ? "warn" : "info", "replica_state", { replica: index, state, reason, ...next });
        metrics.replicaChanged(index, state);
        heard.onChange();
        heard.onState();
      },
      spawn: (composition.wrapSpawn ?? asItIs)(
        spawnEngineProcess({
          ...engineStart(config, { index, devices: own, gpus, cores: cores?.[index] }, environment, process.execPath),
          onStderr: (line) => {
            if (lines.push(line) > KEPT_STDERR_LINES) lines.shift();
            if (pool.replicas[index]?.state !== "starting") log("warn", "replica_stderr", { replica: index, line });
          },
          ...(config.wireLogDirectory === undefined
            ? {}
            : { openWireLog: (pid: number) => openWireLog(config.wireLogDirectory as string, index, pid) }),
        }),
      ),
    });
    return replica;
  });
  const pool = new ReplicaPool(replicas);
  return { pool, stderrOf: (index) => stderrLines[index] ?? [] };
};

const asItIs = (spawn: SpawnEngine): SpawnEngine => spawn;

const badStates: ReadonlySet<LifeState> = new Set<LifeState>(["quarantined", "poisoned", "dead", "abandoned"]);

const limitsOf = (config: ServeConfig): ReplicaLimits => ({
  ...defaultReplicaLimits,
  readyTimeoutMs: config.readyTimeoutMs,
  healCooldownMs: config.healCooldownMs,
  maxWaiting: config.maxWaitingTurns,
});

const announce = (
  config: ServeConfig,
  model: ServedModel,
  pool: ReplicaPool,
  url: string,
  metricsUrl: string | undefined,
  terminal: ServeTerminal,
): void => {
  const replicas = pool.replicas.map((replica) => replica.engine?.process.pid);
  terminal.writeOut(
    config.readyLineAsJson
      ? `${JSON.stringify({ url, metrics: metricsUrl, model: model.name, pids: { agent: process.pid, replicas } })}\n`
      : `Serving ${model.name} on ${url} with ${replicas.length} ${replicas.length === 1 ? "replica" : "replicas"}. Ctrl-C drains and stops.\n`,
  );
};

/**
 * Lets running turns and their answers finish within the bound; new connections are refused by then, and idle ones are closed. A turn
 * whose client is gone has no connection any more, but its DONE is still to come: `inflight` counts it.
 */
const drain = async (
  server: Server,
  closeUntouched: () => void,
  inflight: () => number,
  drainTimeoutMs: number,
): Promise<void> => {
  const over = Promise.withResolvers<void>();
  let closed = false;
  const look = () => {
    if (closed && inflight() === 0) over.resolve();
  };
  server.close(() => {
    closed = true;
    look();
  });
  // A connection that ends its answer only now becomes idle only now.
  const sweep = setInterval(() => {
    server.closeIdleConnections();
    closeUntouched();
    look();
  }, DRAIN_SWEEP_MS);
  const limit = setTimeout(over.resolve, drainTimeoutMs);
  await over.promise;
  clearInterval(sweep);
  clearTimeout(limit);
};

/**
 * The first and the second request to end: SIGTERM, SIGINT, the end of stdin where that was asked for, or the terminal that is gone.
 * Any other SIGHUP is `onHangup`'s.
 */
const watchSignals = (exitWithStdin: boolean, onHangup: () => void) => {
  const hadTerminal = isatty(0);
  const first = Promise.withResolvers<string>();
  const second = Promise.withResolvers<void>();
  let asked = false;
  const onAsk = (why: string) => {
    if (asked) second.resolve();
    asked = true;
    first.resolve(why);
  };
  const onStdinEnd = () => onAsk("end of stdin");
  const onSighup = () => {
    if (hadTerminal && !isatty(0)) onAsk("the terminal is gone");
    else onHangup();
  };
  process.on("SIGHUP", onSighup);
  process.on("SIGTERM", onAsk);
  process.on("SIGINT", onAsk);
  if (exitWithStdin) {
    process.stdin.on("end", onStdinEnd);
    process.stdin.resume();
  }
  return {
    first: first.promise,
    second: second.promise,
    stop: () => {
      process.off("SIGHUP", onSighup);
      process.off("SIGTERM", onAsk);
      process.off("SIGINT", onAsk);
      process.stdin.off("end", onStdinEnd);
      if (exitWithStdin) process.stdin.pause();
    },
  };
};
