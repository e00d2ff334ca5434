/**
 * Builds the addon: `node native/scripts/build.mjs [--if-missing] [--from-source [--cuda] [--cuda-arch 90]]`.
 *
 * Plain JavaScript for any Node >= 20, because it runs before anything else is ready. All output goes to stderr. Exit codes
 * follow sysexits.h: 64 wrong usage, 69 something that must be installed is missing, 70 a step failed, 75 a build from source
 * runs already. It downloads nothing: the source of llama.cpp comes with the package node-llama-cpp.
 */
import { parseArgs } from "node:util";
import { addonIsCurrent, buildAddon } from "./addon.mjs";
import { BuildFailure, EXIT_USAGE } from "./build-failure.mjs";
import { fetchHeaders, prebuiltLibraries } from "./llama-files.mjs";
import { buildLlama } from "./llama-source.mjs";
import { requirePrerequisites } from "./prerequisites.mjs";
import { log } from "./steps.mjs";

const USAGE = "usage: node native/scripts/build.mjs [--if-missing] [--from-source [--cuda] [--cuda-arch 90]]";

function readOptions() {
  try {
    const { values } = parseArgs({
      options: {
        "if-missing": { type: "boolean", default: false },
        "from-source": { type: "boolean", default: false },
        cuda: { type: "boolean", default: false },
        "cuda-arch": { type: "string", default: "90" },
      },
    });
    if (!/^[0-9]+[af]?(;[0-9]+[af]?)*$/.test(values["cuda-arch"])) {
      throw new Error("--cuda-arch takes compute capabilities without the dot, e.g. 90");
    }
    if (values.cuda && !values["from-source"]) {
      throw new Error("--cuda goes with --from-source");
    }
    return values;
  } catch (error) {
    throw new BuildFailure(EXIT_USAGE, `${error.message}\n${USAGE}`);
  }
}

async function main() {
  const options = readOptions();
  if (options["if-missing"] && addonIsCurrent()) {
    return;
  }
  const started = performance.now();
  requirePrerequisites({ cuda: options.cuda });
  const headers = await fetchHeaders({ wholeSource: options["from-source"] });
  const libraries = options["from-source"]
    ? await buildLlama(headers, { cuda: options.cuda, cudaArchitectures: options["cuda-arch"] })
    : prebuiltLibraries();
  await buildAddon(headers, libraries);
  log(`native addon ready (${((performance.now() - started) / 1000).toFixed(1)} s)`);
}

try {
  await main();
} catch (error) {
  if (!(error instanceof BuildFailure)) {
    throw error;
  }
  log(error.message);
  process.exitCode = error.exitCode;
}
