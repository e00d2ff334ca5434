/** The GPUs of this machine, by the names that llama.cpp gives them. */
import { listDevices } from "@lockgate/native";

export const gpuNames = (): string[] =>
  listDevices()
    .filter(({ kind }) => kind === "gpu")
    .map(({ name }) => name);
