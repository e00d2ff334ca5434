/**
 * Bundles the worker the way wrangler does: one ES module, the runtime's own conditions, no Node built-ins.
 */
import { build } from "esbuild";
import { withTimeout } from "./with-timeout.ts";
import { repositoryRoot } from "./wrangler-config.ts";

/** Bundling takes well under a second; without a bound a stuck bundler would leave every later request hanging. */
const BUNDLE_TIMEOUT_MS = 30_000;

/**
 * Returns the module's text. `entryPoint` is relative to the repository's root.
 * Throws at once, with the bundler's message, if the source does not bundle, and after BUNDLE_TIMEOUT_MS if it never ends.
 */
export const bundleWorker = async (entryPoint: string): Promise<string> => {
  const result = await withTimeout(
    build({
      absWorkingDir: repositoryRoot,
      entryPoints: [entryPoint],
      bundle: true,
      write: false,
      format: "esm",
      target: "es2024",
      platform: "neutral",
      conditions: ["workerd", "worker", "browser"],
      mainFields: ["browser", "module", "main"],
      external: ["cloudflare:*"],
      logLevel: "silent",
    }),
    BUNDLE_TIMEOUT_MS,
    `bundling ${entryPoint}`,
  );
  const [output] = result.outputFiles;
  if (output === undefined) throw new Error(`bundling ${entryPoint} gave no output`);
  return output.text;
};
