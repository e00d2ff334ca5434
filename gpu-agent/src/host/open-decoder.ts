/**
 * A replica's decoder as its process opens it: cores pinned, weights loaded, threads chosen. Apart from the host so that a benchmark's bare
 * decoder is the very one that serves.
 */
import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { type Decoder, type DecoderEvent, loadModel, type Model, setCpuAffinity } from "@lockgate/native";
import { readAllowedCpus, readPhysicalCores } from "../topology.ts";
import type { ReplicaHostOptions } from "./replica-host.ts";

/** Models below this many parameters lose time with a second thread (measured: decode halves with the built-in model). */
const TINY_MODEL_PARAMETERS = 100_000_000;

/** Physical cores among the CPUs given, or among those that this process may use. */
const countCores = (cpus: readonly number[] | undefined): number => {
  const readText = (path: string) => readFileSync(path, "utf8");
  const allowed = cpus ?? readAllowedCpus(readText);
  return readPhysicalCores(readText, allowed)?.length || allowed.length || availableParallelism();
};

/** Rejects with the native module's coded errors. */
export const openDecoder = async (
  options: ReplicaHostOptions,
  onEvents: (events: readonly DecoderEvent[]) => void,
): Promise<{ readonly model: Model; readonly decoder: Decoder; readonly threads: number }> => {
  if (options.cores !== undefined) setCpuAffinity(options.cores);
  const model = await loadModel({
    path: options.model,
    ...(options.devices === undefined ? {} : { devices: options.devices }),
  });
  const threads = options.threads ?? (model.info.parameters < TINY_MODEL_PARAMETERS ? 1 : countCores(options.cores));
  const decoder = model.createDecoder({
    slots: options.slots,
    threads,
    onEvents,
    ...(options.contextTokens === undefined ? {} : { contextTokens: options.contextTokens }),
    ...(options.kvType === undefined ? {} : { kvType: options.kvType }),
  });
  return { model, decoder, threads };
};
