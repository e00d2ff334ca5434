/**
 * The bare decoders of `bench serve`: one process a replica, each with the command line that the agent would give to that replica's host, so
 * that devices, cores, threads and context are the same.
 */
import { readFileSync } from "node:fs";
import type { ServeConfig } from "../config/load-serve-config.ts";
import { engineStart } from "../host/engine-start.ts";
import { gpuNames } from "../models/devices.ts";
import { placeCores, placeDevices } from "../placement.ts";
import { readAllowedCpus, readPhysicalCores } from "../topology.ts";
import type { BenchChildren } from "./children.ts";
import { DECODER_LOAD_COMMAND, type Driver, startDriver } from "./drivers.ts";
import type { Load, Sample } from "./load.ts";
import { mergeSamples, splitLoad } from "./split-load.ts";

/** Starts them; they end with the other children. Rejects with ChildEnded, whose process has said why on stderr. */
export const startBareDecoders = async (
  children: BenchChildren,
  config: ServeConfig,
  env: NodeJS.ProcessEnv,
): Promise<(load: Load) => Promise<Sample>> => {
  const gpus = gpuNames();
  const placement = placeDevices(config.replicas, config.devices, gpus);
  if (!placement.ok) throw new Error(placement.message);
  const readText = (path: string) => readFileSync(path, "utf8");
  const cpus = readAllowedCpus(readText);
  const cores = placeCores(config.replicas, cpus, readPhysicalCores(readText, cpus));
  const drivers: Driver[] = [];
  for (const [index, devices] of placement.devices.entries()) {
    const place = { index, devices, gpus, cores: cores?.[index] };
    const start = engineStart(config, place, env, process.execPath);
    // Entry and command are the host's; the words behind them are its options.
    drivers.push(await startDriver(children, [DECODER_LOAD_COMMAND, ...start.args.slice(2)], start.env));
  }
  return async (load) =>
    mergeSamples(
      await Promise.all(
        splitLoad(load, drivers.length).flatMap((part, at) =>
          part === undefined ? [] : [(drivers[at] as Driver).run({ load: part })],
        ),
      ),
    );
};
