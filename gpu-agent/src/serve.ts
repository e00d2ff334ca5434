/**
 * `gpu-agent serve` from configuration to exit: loads the vocabulary, starts the replicas, listens, and on a signal drains and ends.
 * Returns an exit code; only the CLI ends the process.
 */
import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { getRequestListener } from "@hono/node-server";
import { createLocalKeyCheck } from "./auth/local-key.ts";
import { createRequestVerifier } from "./auth/verify-request.ts";
import { exitCodes } from "./config/exit-codes.ts";
import type { ServeConfig } from "./config/load-serve-config.ts";
import { LOCAL_KEY_VARIABLE, SIGNING_KEYS_VARIABLE } from "./config/secrets.ts";
import { hostArguments } from "./host/host-command.ts";
import { exitCodeOfNativeError } from "./host/replica-host.ts";
import { createApp } from "./http/app.ts";
import { createLog, type Log } from "./log.ts";
import { gpuNames } from "./models/devices.ts";
import { ServedModel } from "./models/served-model.ts";
import { parseCoreList, placeCores, placeDevices } from "./placement.ts";
import { systemClock } from "./replicas/clock.ts";
import type { SpawnEngine } from "./replicas/engine.ts";
import { spawnEngineProcess } from "./replicas/engine-process.ts";
import { StartFailed } from "./replicas/errors.ts";
import { defaultReplicaLimits } from "./replicas/limits.ts";
import type { OpenTurn } from "./replicas/owned-turn.ts";
import { ReplicaPool } from "./replicas/pool.ts";
import { Replica, type ReplicaOptions } from "./replicas/replica.ts";
import { openWireLog } from "./replicas/wire-log.ts";

/** Idle connections stay open longer than an edge keeps them (a shorter time loses requests that meet the close). */
const KEEP_ALIVE_TIMEOUT_MS = 90_000;
/** How often connections that have become idle are closed while the agent drains. */
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
): Promise<number> => {
  const fail = (exitCode: number, message: string): number => {
    terminal.writeError(`gpu-agent: ${message}\n`);
    return exitCode;
  };
  const log = createLog(config.logLevel, terminal.writeError);
  const startedAtMs = Date.now();

  let model: ServedModel;
  try {
    model = await ServedModel.load(config.modelPath, config.modelName, startedAtMs);
  } catch (error) {
    return fail(exitCodeOfNativeError(error), (error as Error).message);
  }
  const placement = placeDevices(config.replicas, config.devices, gpuNames());
  if (!placement.ok) return fail(exitCodes.usage, placement.message);

  let draining = false;
  const { pool, stderrOf } = startReplicas(config, placement.devices, composition, log);
  const app = createApp({
    pool,
    open: composition.open,
    model,
    verifier: createRequestVerifier({ keys: config.signingKeys, now: Date.now, startedAtMs }),
    checkLocalKey: createLocalKeyCheck(config.localKey),
    writeStallMs: config.writeStallTimeoutMs,
    log,
    draining: () => draining,
  });
  const server = createServer(
    { keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS },
    getRequestListener(app.fetch, { overrideGlobalObjects: false }),
  );
  const signals = watchSignals(config.exitWithStdin);
  try {
    const url = await listen(server, config.host, config.port);
    const ended = await Promise.race([
      Promise.all(pool.replicas.map((replica) => replica.firstReady)).then(() => "ready" as const),
      signals.first,
    ]);
    if (ended === "ready") {
      announce(config, model, pool, url, terminal);
      const signal = await signals.first;
      log("info", "draining", { signal, inflight: pool.inflight });
    }
    draining = true;
    await Promise.race([drain(server, config.drainTimeoutMs), signals.second]);
    return exitCodes.ok;
  } catch (error) {
    if (error instanceof StartFailed) {
      const index = pool.replicas.findIndex((replica) => replica.state === "failed" || replica.state === "abandoned");
      const said = stderrOf(Math.max(0, index)).at(-1) ?? error.message;
      return fail(
        error.exitCode > 0 ? error.exitCode : exitCodes.unavailable,
        `replica ${Math.max(0, index)} did not start: ${said}`,
      );
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
    server.closeAllConnections();
    server.close();
    await pool.stop();
    await model.close();
  }
};

const startReplicas = (
  config: ServeConfig,
  devices: ReadonlyArray<readonly string[] | undefined>,
  composition: ServeComposition,
  log: Log,
): { pool: ReplicaPool; stderrOf: (index: number) => readonly string[] } => {
  const cores = placeCores(config.replicas, allowedCores());
  const stderrLines = devices.map((): string[] => []);
  const limits = {
    ...defaultReplicaLimits,
    readyTimeoutMs: config.readyTimeoutMs,
    healCooldownMs: config.healCooldownMs,
    maxWaiting: config.maxWaitingTurns,
  };
  const environment = { ...process.env, [SIGNING_KEYS_VARIABLE]: undefined, [LOCAL_KEY_VARIABLE]: undefined };
  const replicas = devices.map((own, index) => {
    const lines = stderrLines[index] as string[];
    const replica: Replica = new Replica({
      index,
      clock: systemClock,
      limits,
      handOver: composition.handOver?.(index),
      onCacheLost: (lost) => pool.index.forget(lost),
      onState: (_, state, reason) =>
        log(state === "poisoned" || state === "failed" ? "warn" : "info", "replica_state", {
          replica: index,
          state,
          reason,
        }),
      spawn: (composition.wrapSpawn ?? asItIs)(
        spawnEngineProcess({
          command: process.execPath,
          args: hostArguments(config, own, cores?.[index]),
          env: environment,
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

/** Cores that this process may use; all of them where the kernel does not say. */
const allowedCores = (): number[] => {
  try {
    const list = /^Cpus_allowed_list:\s*(\S+)$/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1];
    return (list === undefined ? undefined : parseCoreList(list)) ?? [];
  } catch {
    return [];
  }
};

const listen = (server: Server, host: string, port: number): Promise<string> =>
  new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, () => {
      server.off("error", reject);
      const address = server.address() as AddressInfo;
      resolve(`http://${address.family === "IPv6" ? `[${address.address}]` : address.address}:${address.port}`);
    });
  });

const announce = (
  config: ServeConfig,
  model: ServedModel,
  pool: ReplicaPool,
  url: string,
  terminal: ServeTerminal,
): void => {
  const replicas = pool.replicas.map((replica) => replica.engine?.process.pid);
  terminal.writeOut(
    config.readyLineAsJson
      ? `${JSON.stringify({ url, model: model.name, pids: { agent: process.pid, replicas } })}\n`
      : `Serving ${model.name} on ${url} with ${replicas.length} ${replicas.length === 1 ? "replica" : "replicas"}. Ctrl-C drains and stops.\n`,
  );
};

/** Lets running turns and their answers finish within the bound; new connections are refused by then, and idle ones are closed. */
const drain = async (server: Server, drainTimeoutMs: number): Promise<void> => {
  const over = Promise.withResolvers<void>();
  server.close(() => over.resolve());
  // A connection that ends its answer only now becomes idle only now.
  const sweep = setInterval(() => server.closeIdleConnections(), DRAIN_SWEEP_MS);
  const limit = setTimeout(over.resolve, drainTimeoutMs);
  await over.promise;
  clearInterval(sweep);
  clearTimeout(limit);
};

/** The first and the second request to end: SIGTERM, SIGINT, or the end of stdin where that was asked for. */
const watchSignals = (exitWithStdin: boolean) => {
  const first = Promise.withResolvers<string>();
  const second = Promise.withResolvers<void>();
  let asked = false;
  const onAsk = (why: string) => {
    if (asked) second.resolve();
    asked = true;
    first.resolve(why);
  };
  const onStdinEnd = () => onAsk("end of stdin");
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
      process.off("SIGTERM", onAsk);
      process.off("SIGINT", onAsk);
      process.stdin.off("end", onStdinEnd);
      if (exitWithStdin) process.stdin.pause();
    },
  };
};
