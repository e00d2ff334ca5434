/**
 * The second way: llama.cpp itself from source, with CUDA where asked for. Its build folder is kept, so a build that was cut
 * short goes on where it stopped; a lock folder keeps two of them apart.
 */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { dirname, join } from "node:path";
import { NATIVE_DIRECTORY } from "../lib/packages.js";
import { BuildFailure, EXIT_BUSY } from "./build-failure.mjs";
import { isAlive } from "./processes.mjs";
import { runStep } from "./steps.mjs";

const BUILD_DIRECTORY = join(NATIVE_DIRECTORY, "build", "llama");
const LOCK_DIRECTORY = `${BUILD_DIRECTORY}.lock`;
const OWNER_FILE = join(LOCK_DIRECTORY, "pid");

/**
 * @param {string} source root of llama.cpp's source
 * @param {{ cuda: boolean, cudaArchitectures: string }} options
 * @returns {Promise<string>} folder of the libraries
 */
export async function buildLlama(source, { cuda, cudaArchitectures }) {
  takeLock();
  try {
    const parts = ["TESTS", "TOOLS", "EXAMPLES", "SERVER", "COMMON", "APP"].map((part) => `-DLLAMA_BUILD_${part}=OFF`);
    const device = cuda ? ["-DGGML_CUDA=ON", `-DCMAKE_CUDA_ARCHITECTURES=${cudaArchitectures}`] : [];
    await runStep(
      `configuring llama.cpp${cuda ? ` with CUDA for ${cudaArchitectures} (needs the toolkit with cuBLAS)` : ""}`,
      "cmake",
      [
        ...["-S", source, "-B", BUILD_DIRECTORY, "-G", "Unix Makefiles", "-DCMAKE_BUILD_TYPE=Release"],
        // Backends as libraries to load: the addon then works where the driver is missing, and says so.
        ...["-DBUILD_SHARED_LIBS=ON", "-DGGML_BACKEND_DL=ON", "-DGGML_NATIVE=OFF", "-DGGML_CPU_ALL_VARIANTS=ON"],
        ...["-DLLAMA_OPENSSL=OFF", ...parts, ...device],
      ],
    );
    await runStep("compiling llama.cpp (this takes a while)", "cmake", [
      ...["--build", BUILD_DIRECTORY, "--parallel", String(availableParallelism())],
    ]);
  } finally {
    rmSync(LOCK_DIRECTORY, { recursive: true, force: true });
  }
  return join(BUILD_DIRECTORY, "bin");
}

function takeLock() {
  try {
    mkdirSync(dirname(LOCK_DIRECTORY), { recursive: true });
    mkdirSync(LOCK_DIRECTORY);
  } catch (error) {
    if (error.code !== "EEXIST") {
      throw error;
    }
    const owner = lockOwner();
    if (owner === null || isAlive(owner)) {
      throw new BuildFailure(
        EXIT_BUSY,
        `another build from source runs (pid ${owner ?? "unknown"}, ${LOCK_DIRECTORY})`,
      );
    }
  }
  // A dead owner's lock is taken over by writing the new owner into it.
  writeFileSync(OWNER_FILE, String(process.pid));
}

function lockOwner() {
  try {
    const pid = Number(readFileSync(OWNER_FILE, "utf8"));
    return Number.isInteger(pid) && pid > 0 ? pid : null;
  } catch {
    return null;
  }
}
