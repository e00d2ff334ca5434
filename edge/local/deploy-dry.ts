/**
 * Builds the bundle that `wrangler deploy` would upload, with no account and no network, and prints how big it is.
 */
import { spawnSync } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { repositoryRoot } from "./wrangler-config.ts";

/** It takes about 4 s. */
const WRANGLER_TIMEOUT_MS = 120_000;
const OUTPUT_FILE = "worker.js";

const outdir = await mkdtemp(join(tmpdir(), "lockgate-deploy-dry-"));
try {
  const wrangler = spawnSync("wrangler", ["deploy", "--dry-run", "--outdir", outdir], {
    cwd: repositoryRoot,
    timeout: WRANGLER_TIMEOUT_MS,
    encoding: "utf8",
    env: {
      ...process.env,
      PATH: `${repositoryRoot}node_modules/.bin:${process.env.PATH ?? ""}`,
      CI: "1",
      WRANGLER_SEND_METRICS: "false",
      CLOUDFLARE_CF_FETCH_ENABLED: "false",
      WRANGLER_LOG_PATH: outdir,
    },
  });
  if (wrangler.status !== 0) {
    console.error(wrangler.error?.message ?? `${wrangler.stdout}${wrangler.stderr}`);
    process.exitCode = 1;
  } else {
    const bundle = await readFile(join(outdir, OUTPUT_FILE));
    const kib = (bytes: number): string => (bytes / 1024).toFixed(1);
    console.log(`edge worker bundle: ${kib(bundle.length)} KiB, ${kib(gzipSync(bundle).length)} KiB gzipped`);
  }
} finally {
  await rm(outdir, { recursive: true, force: true });
}
