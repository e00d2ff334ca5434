/**
 * The native module once more, in a folder of its own: copied, and built by its own script with AddressSanitizer in the compiler's command.
 * llama.cpp's libraries are the ready-made ones and are not instrumented; our code is, and every allocation and free of the process is watched.
 */
import { execFileSync } from "node:child_process";
import { cpSync, existsSync, readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../../", import.meta.url));
/** What the module is made of; the unpacked headers come along where they are there, since that saves a checkout. */
const PARTS = ["package.json", "CMakeLists.txt", "index.js", "lib", "scripts", "src", ".llama"];

export interface SanitizedAddon {
  /** The module to import. */
  readonly module: string;
  /** What a process that imports it needs around it. */
  readonly env: Readonly<Record<string, string>>;
}

/** The sanitizer's runtime, which has to be loaded before everything else; undefined where g++ has none. */
const sanitizerRuntime = (): string | undefined => {
  const path = execFileSync("g++", ["-print-file-name=libasan.so"], { encoding: "utf8" }).trim();
  // Without one g++ repeats the name.
  return path.includes("/") && existsSync(path) ? path : undefined;
};

/** Builds it in `directory`; undefined where g++ has no AddressSanitizer. Throws with the compiler's words where the build fails. */
export const buildSanitized = (directory: string): SanitizedAddon | undefined => {
  const runtime = sanitizerRuntime();
  if (runtime === undefined) return undefined;
  const native = join(directory, "native");
  for (const part of PARTS) {
    const source = join(root, "native", part);
    if (existsSync(source)) cpSync(source, join(native, part), { recursive: true });
  }
  symlinkSync(join(root, "node_modules"), join(directory, "node_modules"));
  execFileSync(process.execPath, [join(native, "scripts", "build.mjs")], {
    env: { ...process.env, CXX: "g++ -fsanitize=address -g1" },
    stdio: "pipe",
  });
  if (!readFileSync(join(native, "build", "lockgate.node")).includes("__asan_report")) {
    throw new Error("the addon was built without the sanitizer");
  }
  // Node itself and V8 keep what they have until the end: leaks are memory.test.ts's matter.
  return { module: join(native, "index.js"), env: { LD_PRELOAD: runtime, ASAN_OPTIONS: "detect_leaks=0" } };
};
