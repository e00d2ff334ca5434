/**
 * What a new reading of the configuration changes in a running agent: a pure decision. What needs new processes or a new socket keeps its
 * value until the next start, and is named, so that nobody believes it has changed.
 *
 * An option that is not listed as live cannot be changed live: a new one is safe before anybody thinks of it.
 */
import { isDeepStrictEqual } from "node:util";
import type { ServeConfig, ServeConfigResult } from "./config/load-serve-config.ts";
import type { Log } from "./log.ts";

/** Fields that are read anew at each use. */
const liveFields = [
  "maxWaitingTurns",
  "readyTimeoutMs",
  "healCooldownMs",
  "writeStallTimeoutMs",
  "drainTimeoutMs",
  "logLevel",
  "signingKeys",
  "localKey",
] as const satisfies readonly (keyof ServeConfig)[];

export interface ReloadPlan {
  /** The running configuration with the live fields of the fresh one. */
  readonly config: ServeConfig;
  /** Fields that take their new value now. */
  readonly changed: readonly string[];
  /** Fields that differ and need a restart. */
  readonly kept: readonly string[];
}

export const planReload = (running: ServeConfig, fresh: ServeConfig): ReloadPlan => {
  const fields = Object.keys(running) as (keyof ServeConfig)[];
  const differing = fields.filter((field) => !isDeepStrictEqual(running[field], fresh[field]));
  const isLive = (field: keyof ServeConfig): boolean => (liveFields as readonly string[]).includes(field);
  const live = Object.fromEntries(liveFields.map((field) => [field, fresh[field]])) as Pick<
    ServeConfig,
    (typeof liveFields)[number]
  >;
  return {
    config: { ...running, ...live },
    changed: differing.filter(isLive),
    kept: differing.filter((field) => !isLive(field)),
  };
};

/** Reads again, tells the log what came of it, and returns the configuration that holds now: the running one where the new is broken. */
export const reloadConfig = (running: ServeConfig, readAgain: () => ServeConfigResult, log: Log): ServeConfig => {
  const fresh = readAgain();
  if (!fresh.ok) {
    log("error", "reload_failed", { reason: fresh.message });
    return running;
  }
  const { config, changed, kept } = planReload(running, fresh.config);
  log("info", "reloaded", { changed });
  if (kept.length > 0) log("warn", "reload_needs_restart", { kept });
  return config;
};
