/** Compiles the addon. Two builds at once do not meet: each works in a folder of its own, and the result is renamed. */
import { mkdirSync, readdirSync, renameSync, rmSync, statSync } from "node:fs";
import { availableParallelism } from "node:os";
import { dirname, join, relative } from "node:path";
import { ADDON_PATH, findPackage, NATIVE_DIRECTORY } from "../lib/packages.js";
import { BuildFailure, EXIT_UNAVAILABLE } from "./build-failure.mjs";
import { removeLeftovers } from "./processes.mjs";
import { runStep } from "./steps.mjs";

const WORK = "work-";

/** True when the addon is there and newer than everything that it is compiled from. */
export function addonIsCurrent() {
  const built = modifiedMs(ADDON_PATH);
  if (built === null) {
    return false;
  }
  const sources = readdirSync(join(NATIVE_DIRECTORY, "src")).map((name) => join("src", name));
  return ["CMakeLists.txt", ...sources].every((name) => (modifiedMs(join(NATIVE_DIRECTORY, name)) ?? 0) <= built);
}

function modifiedMs(path) {
  return statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? null;
}

function requirePackage(name) {
  const directory = findPackage(name);
  if (directory === null) {
    throw new BuildFailure(EXIT_UNAVAILABLE, `${name} is not installed: run npm ci`);
  }
  return directory;
}

/**
 * @param {string} headers root of llama.cpp's source or of its headers
 * @param {string} libraries folder of libllama
 */
export async function buildAddon(headers, libraries) {
  const outputDirectory = dirname(ADDON_PATH);
  mkdirSync(outputDirectory, { recursive: true });
  removeLeftovers(outputDirectory, WORK);
  const work = join(outputDirectory, `${WORK}${process.pid}`);
  mkdirSync(work);
  try {
    await runStep("compiling the native addon", process.execPath, [
      join(requirePackage("cmake-js"), "bin", "cmake-js"),
      "build",
      ...["--directory", NATIVE_DIRECTORY, "--out", work, "--prefer-make", "--config", "Release"],
      ...["--parallel", String(availableParallelism())],
      `--CDLOCKGATE_LLAMA_HEADERS=${headers}`,
      `--CDLOCKGATE_LLAMA_LIBRARIES=${libraries}`,
      `--CDLOCKGATE_NODE_ADDON_API=${requirePackage("node-addon-api")}`,
      `--CDLOCKGATE_RPATH=${runPath(outputDirectory, libraries)}`,
    ]);
    renameSync(join(work, "Release", "lockgate.node"), ADDON_PATH);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** Relative to the addon first, so that the whole tree may be moved. */
function runPath(from, to) {
  const origin = process.platform === "darwin" ? "@loader_path" : "$ORIGIN";
  return [`${origin}/${relative(from, to)}`, to].join(";");
}
