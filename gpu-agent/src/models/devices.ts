/** The GPUs of this machine, by the names that llama.cpp gives them. */
import { existsSync } from "node:fs";
import { listBackends, listDevices } from "@lockgate/native";

export const gpuNames = (): string[] =>
  listDevices()
    .filter(({ kind }) => kind === "gpu")
    .map(({ name }) => name);

/** Where the NVIDIA driver tells its version: there is a GPU, whether or not the CUDA libraries are. */
const NVIDIA_DRIVER = "/proc/driver/nvidia/version";

/** Why a GPU that is here is not used; undefined where there is none, or where it is. */
export const unusedGpuReason = (driverIsHere: boolean = existsSync(NVIDIA_DRIVER)): string | undefined => {
  const cuda = listBackends().find(({ name }) => name === "cuda");
  return driverIsHere && cuda !== undefined && !cuda.loaded ? (cuda.reason ?? "CUDA did not load") : undefined;
};
