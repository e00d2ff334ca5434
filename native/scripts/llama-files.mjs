/** llama.cpp's headers and libraries, both out of npm packages: the headers from the git bundle in node-llama-cpp. */
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { findPackage, findPrebuilt, NATIVE_DIRECTORY } from "../lib/packages.js";
import { BuildFailure, EXIT_UNAVAILABLE } from "./build-failure.mjs";
import { removeLeftovers } from "./processes.mjs";
import { runStep } from "./steps.mjs";

/** git as if nobody had ever configured it. */
const PLAIN_GIT = { GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_NOSYSTEM: "1", GIT_TERMINAL_PROMPT: "0" };
const PARTIAL = "partial-";
const HEADER_FOLDERS = ["include", "ggml/include"];

/** Folder of the ready-made libllama for this machine. */
export function prebuiltLibraries() {
  const { packageName, directory } = findPrebuilt();
  if (directory === null) {
    throw new BuildFailure(
      EXIT_UNAVAILABLE,
      `${packageName} is not installed: run npm ci, or build with --from-source`,
    );
  }
  return directory;
}

/**
 * Checks the source out of the bundle, once for each release of llama.cpp: a folder of that name is always whole, because
 * it is made under another name and renamed.
 * @returns {Promise<string>} the source's root folder
 */
export async function fetchHeaders({ wholeSource }) {
  const nodeLlamaCpp = findPackage("node-llama-cpp");
  if (nodeLlamaCpp === null) {
    throw new BuildFailure(EXIT_UNAVAILABLE, "node-llama-cpp is not installed: run npm ci");
  }
  const { release } = JSON.parse(readFileSync(join(nodeLlamaCpp, "llama", "binariesGithubRelease.json"), "utf8"));
  const bundle = join(nodeLlamaCpp, "llama", "gitRelease.bundle");
  const parent = join(NATIVE_DIRECTORY, ".llama");
  const target = join(parent, wholeSource ? `${release}-source` : `${release}-headers`);
  if (existsSync(target)) {
    return target;
  }
  mkdirSync(parent, { recursive: true });
  removeLeftovers(parent, PARTIAL);
  const partial = join(parent, `${PARTIAL}${process.pid}`);
  try {
    const options = { env: PLAIN_GIT };
    const what = wholeSource ? "source" : "headers";
    await runStep(
      `unpacking llama.cpp ${release} ${what}`,
      "git",
      ["clone", "-q", "--no-checkout", bundle, partial],
      options,
    );
    const folders = wholeSource ? ["."] : HEADER_FOLDERS;
    await runStep(
      `checking out its ${what}`,
      "git",
      ["-C", partial, "checkout", "-q", "HEAD", "--", ...folders],
      options,
    );
    takeOver(partial, target);
  } finally {
    rmSync(partial, { recursive: true, force: true });
  }
  return target;
}

/** Another build may have finished the same folder meanwhile; then its copy is as good. */
function takeOver(partial, target) {
  try {
    renameSync(partial, target);
  } catch (error) {
    if (!existsSync(target)) {
      throw error;
    }
  }
}
