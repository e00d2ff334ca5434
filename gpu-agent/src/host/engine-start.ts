/** How the engine of one replica is started: our replica host under this Node, or the operator's own command. Pure. */
import { fillCommand } from "../config/engine-command.ts";
import { exitCodes } from "../config/exit-codes.ts";
import type { ServeConfig } from "../config/load-serve-config.ts";
import { viewDevices } from "../placement.ts";
import { hostArguments } from "./host-command.ts";

export interface ReplicaPlace {
  readonly index: number;
  readonly devices: readonly string[] | undefined;
  /** GPUs that the agent found; undefined: only the engine knows. */
  readonly gpus: readonly string[] | undefined;
  readonly cores: readonly number[] | undefined;
}

export interface EngineStart {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
}

/** `env` is what the engine inherits; it must not hold the agent's keys. */
export const engineStart = (
  config: ServeConfig,
  { index, devices, gpus, cores }: ReplicaPlace,
  env: NodeJS.ProcessEnv,
  node: string,
): EngineStart => {
  const seen = viewDevices(devices, env.CUDA_VISIBLE_DEVICES, gpus);
  const own = seen.cudaVisibleDevices === undefined ? env : { ...env, CUDA_VISIBLE_DEVICES: seen.cudaVisibleDevices };
  if (config.engineCommand === undefined) {
    return { command: node, args: hostArguments(config, seen.names, cores), env: own };
  }
  const [command = "", ...args] = fillCommand(config.engineCommand, {
    replica: index,
    devices: seen.names?.join(",") ?? "",
    cores: cores?.join(",") ?? "",
    model: config.modelPath,
  });
  return { command, args, env: own };
};

/** The agent's exit code for an engine that did not start: the engine's own where it is one of ours (another engine's may mean anything). */
export const exitCodeOfStart = (engineCode: number): number =>
  engineCode > 0 && Object.values<number>(exitCodes).includes(engineCode) ? engineCode : exitCodes.unavailable;
