/**
 * Where the packages that native/ depends on lie, and which of llama.cpp's builds fit this machine.
 *
 * Packages are found by walking up the node_modules folders, not by import.meta.resolve: their `exports` hide package.json,
 * and this file works the same in the repository, in an installed package with hoisted dependencies, and on any Node >= 20.
 */
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The folder that holds CMakeLists.txt and index.js. */
export const NATIVE_DIRECTORY = dirname(dirname(fileURLToPath(import.meta.url)));

/** Where scripts/build.mjs puts the addon and index.js looks for it. */
export const ADDON_PATH = join(NATIVE_DIRECTORY, "build", "lockgate.node");

/** llama.cpp's builds by platform: the package, and the name of its folder below bins/. */
const PREBUILT = {
  "linux-x64": "linux-x64",
  "linux-arm64": "linux-arm64",
  "darwin-arm64": "mac-arm64-metal",
  "darwin-x64": "mac-x64",
};

/** GPU backends as separate packages, by platform. `fallback` is an older CUDA's build, tried second. */
const GPU_PACKAGES = {
  "linux-x64": [
    {
      name: "cuda",
      registry: "CUDA",
      file: "libggml-cuda.so",
      sources: [
        { packageName: "@node-llama-cpp/linux-x64-cuda", folder: "bins/linux-x64-cuda" },
        { packageName: "@node-llama-cpp/linux-x64-cuda-ext", folder: "bins/linux-x64-cuda/fallback" },
      ],
    },
    {
      name: "vulkan",
      registry: "Vulkan",
      file: "libggml-vulkan.so",
      sources: [{ packageName: "@node-llama-cpp/linux-x64-vulkan", folder: "bins/linux-x64-vulkan" }],
    },
  ],
  "linux-arm64": [{ name: "cuda", registry: "CUDA", file: "libggml-cuda.so", sources: [] }],
  "darwin-arm64": [{ name: "metal", registry: "MTL", file: "libggml-metal.so", sources: [] }],
};

const platform = `${process.platform}-${process.arch}`;

/**
 * Folder of an installed package, seen from native/ and then from node-llama-cpp (whose dependencies may be nested in it).
 * @param {string} name
 * @returns {string | null}
 */
export function findPackage(name) {
  const direct = walkUp(NATIVE_DIRECTORY, name);
  if (direct !== null || name === "node-llama-cpp") {
    return direct;
  }
  const parent = findPackage("node-llama-cpp");
  return parent === null ? null : walkUp(parent, name);
}

function walkUp(start, name) {
  for (let directory = start; ; directory = dirname(directory)) {
    const candidate = join(directory, "node_modules", name);
    if (existsSync(join(candidate, "package.json"))) {
      return candidate;
    }
    if (directory === dirname(directory)) {
      return null;
    }
  }
}

/**
 * The ready-made libllama for this machine.
 * @returns {{ packageName: string, directory: string | null }} directory null where the package is not installed
 */
export function findPrebuilt() {
  const build = PREBUILT[platform];
  if (build === undefined) {
    return { packageName: `a ready-made llama.cpp for ${platform}`, directory: null };
  }
  const packageName = `@node-llama-cpp/${build}`;
  const root = findPackage(packageName);
  const directory = root === null ? null : join(root, "bins", build);
  return { packageName, directory: directory !== null && existsSync(directory) ? directory : null };
}

/**
 * The GPU backends to look for, as the addon's initBackends takes them. A library beside libllama (a build from source)
 * comes before the packages'. A package without its library counts as not installed: the repository's own lock puts an
 * empty one in the place of the large GPU packages.
 * @param {string} libraryDirectory folder of the libllama in use
 */
export function gpuBackendSearches(libraryDirectory) {
  return (GPU_PACKAGES[platform] ?? []).map(({ name, registry, file, sources }) => {
    const beside = join(libraryDirectory, file);
    const packaged = sources.flatMap(({ packageName, folder }) => {
      const root = findPackage(packageName);
      return root === null ? [] : [join(root, folder, file)];
    });
    const absentReason =
      sources.length > 0
        ? `package ${sources[0].packageName} is not installed`
        : `${libraryDirectory} holds no ${file}`;
    return { name, registry, paths: [beside, ...packaged].filter((path) => existsSync(path)), absentReason };
  });
}
