/**
 * Builds the bundles that `wrangler deploy` would upload, by itself and for each environment, with no account and no network, and prints how
 * big each is and what it is bound to. A warning of wrangler's is a failure here: it warns where an environment lacks a binding.
 *
 * A path as its only argument names another file than wrangler.toml.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { text } from "node:stream/consumers";
import { gzipSync } from "node:zlib";
import { readWranglerConfig, repositoryRoot } from "./wrangler-config.ts";

/** It takes about 4 s. */
const WRANGLER_TIMEOUT_MS = 120_000;
const OUTPUT_FILE = "worker.js";

const kib = (bytes: number): string => (bytes / 1024).toFixed(1);

/** Bundles for one environment, "" for none of them; resolves with a line about the bundle. Throws what wrangler says. */
const bundle = async (config: string, environment: string): Promise<string> => {
  const outdir = await mkdtemp(join(tmpdir(), "lockgate-deploy-dry-"));
  try {
    const words = ["deploy", "--dry-run", "--config", config, "--env", environment, "--outdir", outdir];
    const wrangler = spawn("wrangler", words, {
      cwd: repositoryRoot,
      timeout: WRANGLER_TIMEOUT_MS,
      stdio: ["ignore", "pipe", "pipe"],
      env: {
        ...process.env,
        PATH: `${repositoryRoot}node_modules/.bin:${process.env.PATH ?? ""}`,
        CI: "1",
        NO_COLOR: "1",
        WRANGLER_SEND_METRICS: "false",
        CLOUDFLARE_CF_FETCH_ENABLED: "false",
        WRANGLER_LOG_PATH: outdir,
      },
    });
    const [[code], out, error] = await Promise.all([
      once(wrangler, "exit"),
      text(wrangler.stdout),
      text(wrangler.stderr),
    ]);
    if (code !== 0 || /WARNING|ERROR/.test(out + error)) throw new Error(`${out}${error}`);
    const bytes = await readFile(join(outdir, OUTPUT_FILE));
    const bindings = [...out.matchAll(/^env\.(.+?) {2,}/gm)].map(([, binding]) => binding);
    return `${kib(bytes.length)} KiB, ${kib(gzipSync(bytes).length)} KiB gzipped; ${bindings.join(", ")}`;
  } finally {
    await rm(outdir, { recursive: true, force: true });
  }
};

const path = resolve(process.argv[2] ?? `${repositoryRoot}wrangler.toml`);
const { name, env } = await readWranglerConfig(path);
const environments: [name: string, environment: string][] = [
  [name, ""],
  ...Object.entries(env).map(([environment, settings]): [string, string] => [settings.name, environment]),
];
for (const [worker, environment] of environments) {
  try {
    console.log(`${worker}: ${await bundle(path, environment)}`);
  } catch (error) {
    console.error(`${worker}: ${error instanceof Error ? error.message : String(error)}`);
    process.exitCode = 1;
  }
}
