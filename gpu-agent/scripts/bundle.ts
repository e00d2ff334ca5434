/**
 * Bundles the agent's sources into dist/: plain JavaScript with our own workspaces inside and npm packages outside. What the sources import
 * only when a command needs it stays a chunk of its own.
 *
 * The native module is neither: it is a folder of sources that the packed agent carries (prepack.ts), so its import becomes a relative one.
 */
import { rm } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { build, type Plugin } from "esbuild";
import { packageRoot } from "./manifests.ts";

/** Seen from dist/. */
const PACKED_NATIVE_MODULE = "../native/index.js";

const workspaces: Plugin = {
  name: "workspaces",
  setup: ({ onResolve }) => {
    onResolve({ filter: /^@lockgate\/native$/ }, () => ({ path: PACKED_NATIVE_MODULE, external: true }));
    onResolve({ filter: /^@lockgate\// }, ({ path }) => ({ path: fileURLToPath(import.meta.resolve(path)) }));
  },
};

/** `@scope/name/sub/path` as `@scope/name`. */
const packageName = (path: string): string => path.split("/", path.startsWith("@") ? 2 : 1).join("/");

/** Writes dist/ anew. Resolves with the npm packages that it imports; rejects with the bundler's messages. */
export const bundleAgent = async (): Promise<ReadonlySet<string>> => {
  await rm(new URL("dist", packageRoot), { recursive: true, force: true });
  const { metafile } = await build({
    absWorkingDir: fileURLToPath(packageRoot),
    entryPoints: ["src/cli.ts"],
    outdir: "dist",
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "node",
    target: "node22.19",
    packages: "external",
    plugins: [workspaces],
    metafile: true,
    logLevel: "warning",
  });
  const imports = Object.values(metafile.outputs).flatMap((output) => output.imports);
  const external = imports.filter(({ path, external }) => external && !/^(node:|\.)/.test(path));
  return new Set(external.map(({ path }) => packageName(path)));
};

if (import.meta.main) await bundleAgent();
