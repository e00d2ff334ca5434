/**
 * Usage and heartbeats as one service of `serve`, put together from the configuration: nothing, heartbeats alone, or a spool with its
 * delivery too.
 */
import { hostname } from "node:os";
import { identifierSchema, type SigningKeys } from "@lockgate/shared-types";
import { exitCodes } from "../config/exit-codes.ts";
import type { ServeConfig } from "../config/load-serve-config.ts";
import { type ConfigFault, configFault } from "../config/outcome.ts";
import type { Log } from "../log.ts";
import { systemClock } from "../replicas/clock.ts";
import { createEdgePost } from "./edge-post.ts";
import { type AgentSource, heartbeatOf } from "./heartbeat.ts";
import { HeartbeatSender } from "./heartbeat-sender.ts";
import { spoolFilesIn } from "./spool-files.ts";
import { lockSpool } from "./spool-lock.ts";
import { UsageDelivery } from "./usage-delivery.ts";
import type { UsageFigures } from "./usage-figures.ts";
import { SpooledMeter, type UsageMeter } from "./usage-meter.ts";
import { UsageSpool } from "./usage-spool.ts";

/** How long `close` waits for turns that were cut off to leave their records. */
export const SETTLE_TIMEOUT_MS = 2_000;

/** How long `flush` waits for the last heartbeat: it spares the edge a request that fails over, and is worth no more than that. */
export const LAST_BEAT_LIMIT_MS = 1_000;

type UsageConfig = Pick<
  ServeConfig,
  "edgeUrl" | "agentId" | "heartbeatIntervalMs" | "spoolDirectory" | "maxSpooledRecords" | "signingKeys"
>;

export interface UsageService {
  readonly meter: UsageMeter;
  /** Begins with deliveries and heartbeats; `onFailure` hears of every delivery that came to nothing. */
  start(agent: AgentSource, onFailure?: (code: string) => void): void;
  /** Undefined where nothing is recorded. */
  figures(): UsageFigures | undefined;
  /** Tells the edge of a change now. */
  beatNow(): void;
  /** Delivers what is there, the heartbeat that is due included, once and within `limitMs`; nothing is delivered afterwards. */
  flush(limitMs: number): Promise<void>;
  /** Waits for the records of turns that end, and closes the spool. Idempotent. */
  close(): Promise<void>;
}

/** What does not fit together in the configuration; undefined where all is well. */
export const usageConfigFault = (config: UsageConfig): string | undefined => {
  if (config.spoolDirectory !== undefined && config.edgeUrl === undefined)
    return "--spool needs --edge-url: without an edge nothing would ever leave the spool";
  if (config.edgeUrl !== undefined && config.signingKeys.size === 0)
    return "--edge-url needs signing keys, which prove to the edge who sends; set LOCKGATE_SIGNING_KEYS or auth.signing_keys_file";
  if (config.agentId !== undefined && !identifierSchema.safeParse(config.agentId).success)
    return "--agent-id must be 1 to 64 letters, digits or any of . _ -";
  return undefined;
};

/** The machine's name in the alphabet of ids. */
const agentIdOfHost = (name: string): string => name.replaceAll(/[^A-Za-z0-9._-]/g, "-").slice(0, 64) || "agent";

/** Opens the spool where there is one. Not ok: an exit code and the words for it. */
export const openUsage = async (
  config: UsageConfig,
  /** The signing keys as they are now. */
  keys: () => SigningKeys,
  log: Log,
): Promise<{ readonly ok: true; readonly usage: UsageService } | ConfigFault> => {
  const fault = usageConfigFault(config);
  if (fault !== undefined) return configFault(exitCodes.config, fault);
  const { edgeUrl, spoolDirectory } = config;
  if (edgeUrl !== undefined && spoolDirectory === undefined)
    log("warn", "usage_not_recorded", { detail: "there is an edge but no --spool" });

  let spool: UsageSpool | undefined;
  let unlock = (): void => {};
  if (spoolDirectory !== undefined) {
    try {
      const files = spoolFilesIn(spoolDirectory);
      const lock = await lockSpool(spoolDirectory);
      if (lock === undefined)
        return configFault(exitCodes.unavailable, `the spool ${spoolDirectory} belongs to another agent that runs`);
      unlock = lock;
      spool = await UsageSpool.open({
        files,
        maxRecords: config.maxSpooledRecords,
        clock: systemClock,
        nowMs: Date.now,
        log,
      });
    } catch (error) {
      unlock();
      const { code, message } = error as NodeJS.ErrnoException;
      return configFault(
        exitCodes.unavailable,
        `the spool ${spoolDirectory} cannot be used (${code ?? message}); check --spool`,
      );
    }
  }

  const agentId = config.agentId ?? agentIdOfHost(hostname());
  const meter = new SpooledMeter({ spool, agentId, nowMs: Date.now, log });
  const post = edgeUrl === undefined ? undefined : createEdgePost({ edgeUrl, agentId, keys, nowMs: Date.now });
  let delivery: UsageDelivery | undefined;
  let sender: HeartbeatSender | undefined;
  let closed = false;

  const usage: UsageService = {
    meter,
    start: (agent, onFailure = () => {}) => {
      if (post === undefined) return;
      if (spool !== undefined) {
        delivery = new UsageDelivery({ spool, post, agentId, clock: systemClock, random: Math.random, log, onFailure });
        delivery.start();
      }
      const spooled = () => ({ takesTurns: spool?.takesTurns() ?? true, backlog: spool?.backlog ?? 0 });
      sender = new HeartbeatSender({
        beat: () => heartbeatOf(agentId, agent, spooled(), Date.now()),
        post,
        intervalMs: config.heartbeatIntervalMs,
        clock: systemClock,
        log,
      });
      sender.start();
    },
    figures: () =>
      spool && { backlog: spool.backlog, rejected: spool.rejected, deliveryError: delivery?.error ?? null },
    beatNow: () => sender?.hurry(),
    flush: async (limitMs) => {
      await Promise.all([delivery?.finish(limitMs), sender?.finish(Math.min(limitMs, LAST_BEAT_LIMIT_MS))]);
    },
    close: async () => {
      if (closed) return;
      closed = true;
      await sender?.stop();
      await delivery?.finish(0);
      const late = Promise.withResolvers<void>();
      const limit = systemClock.after(SETTLE_TIMEOUT_MS, late.resolve);
      await Promise.race([meter.idle, late.promise]);
      limit.cancel();
      await spool?.close();
      unlock();
    },
  };
  return { ok: true, usage };
};
