/** The programs that the build needs. Checked before anything is done; the first missing one is named with its remedy. */
import { accessSync, constants, statSync } from "node:fs";
import { delimiter, join } from "node:path";
import { BuildFailure, EXIT_UNAVAILABLE } from "./build-failure.mjs";

const PROGRAMS = [
  { name: "git", remedy: "apt-get install -y git" },
  { name: "cmake", remedy: "apt-get install -y cmake" },
  { name: "make", remedy: "apt-get install -y make" },
  { name: "g++", remedy: "apt-get install -y g++" },
];
const CUDA_COMPILER = { name: "nvcc", remedy: "install the CUDA toolkit and put its bin folder on PATH" };

/** macOS has clang++ behind the name g++ too, so one list serves both. */
export function requirePrerequisites({ cuda }) {
  for (const { name, remedy } of cuda ? [...PROGRAMS, CUDA_COMPILER] : PROGRAMS) {
    if (!onPath(name)) {
      throw new BuildFailure(EXIT_UNAVAILABLE, `${name} is missing: ${remedy}`);
    }
  }
}

function onPath(program) {
  return (process.env.PATH ?? "")
    .split(delimiter)
    .some((directory) => directory !== "" && runnable(join(directory, program)));
}

function runnable(path) {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
