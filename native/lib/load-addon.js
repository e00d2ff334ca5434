/**
 * Loads the built addon and, once a process, llama.cpp's backends. Builds nothing: a missing addon is an error that says
 * which command makes it.
 */
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { relative } from "node:path";
import { nativeError } from "./native-error.js";
import { ADDON_PATH, gpuBackendSearches, NATIVE_DIRECTORY } from "./packages.js";

function loadAddon() {
  if (!existsSync(ADDON_PATH)) {
    const script = relative(process.cwd(), `${NATIVE_DIRECTORY}/scripts/build.mjs`);
    throw nativeError("ERR_ADDON_NOT_BUILT", `The native addon is not built. Build it with: node ${script}`);
  }
  const addon = createRequire(import.meta.url)(ADDON_PATH);
  addon.initBackends(gpuBackendSearches(addon.libraryDirectory));
  // process.exit() runs no native cleanup; a thread that still computes would crash while the libraries are taken down.
  process.once("exit", () => addon.endThreads());
  return addon;
}

export const addon = loadAddon();
