/** The command line of `gpu-agent replica-host`: written by the agent, read by the process that it starts. */
import { fileURLToPath } from "node:url";
import type { Command } from "commander";
import type { ServeConfig } from "../config/load-serve-config.ts";
import { runsOnCpu } from "../placement.ts";
import { parseCoreList } from "../topology.ts";
import type { ReplicaHostOptions } from "./replica-host.ts";

/** This package's entry, from the sources and from the bundle alike. */
export const entryPath = fileURLToPath(
  new URL(import.meta.url.endsWith(".ts") ? "../../bin/gpu-agent.js" : "../bin/gpu-agent.js", import.meta.url),
);

/** Arguments for Node that start the host of one replica. */
export const hostArguments = (
  config: ServeConfig,
  devices: readonly string[] | undefined,
  cores: readonly number[] | undefined,
): string[] => {
  const args = [entryPath, "replica-host", "--model", config.modelPath, "--slots", String(config.slots)];
  const add = (flag: string, value: string | number | undefined) => {
    if (value !== undefined) args.push(flag, String(value));
  };
  add("--context", config.contextTokens);
  add("--threads", config.threads);
  add("--devices", devices?.join(","));
  add("--kv-type", config.kvType);
  add("--cores", runsOnCpu(devices) ? cores?.join(",") : undefined);
  return args;
};

const integer = (text: string): number => Number(text);
const names = (text: string): string[] => text.split(",");

/** Gives a command what hostArguments writes; the native module judges the values. */
export const addHostAction = (command: Command, onHost: (options: ReplicaHostOptions) => Promise<void>): Command =>
  command
    .requiredOption("--model <FILE>", "a GGUF file")
    .option("--slots <NUMBER>", "turns decoded together", integer, 1)
    .option("--context <NUMBER>", "tokens that a slot holds", integer)
    .option("--threads <NUMBER>", "CPU threads", integer)
    .option("--devices <LIST>", "compute devices", names)
    .option("--kv-type <TYPE>", "number format of the KV cache")
    .option("--cores <LIST>", "CPU cores to run on, e.g. 0-3", (text) => parseCoreList(text) ?? [])
    .action((options: HostFlags) => onHost({ ...options, contextTokens: options.context }));

/** Adds the command that an agent starts for each replica. */
export const addReplicaHostCommand = (
  program: Command,
  onHost: (options: ReplicaHostOptions) => Promise<void>,
): Command =>
  addHostAction(
    program.command("replica-host").description("Run one replica: the engine protocol on standard input and output."),
    onHost,
  );

type HostFlags = Omit<ReplicaHostOptions, "contextTokens"> & { readonly context: number | undefined };
