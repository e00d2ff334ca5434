/** Builds the native addon where it is missing or older than its sources, by the addon's own script; that says on stderr what it does. */
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { exitCodes } from "../config/exit-codes.ts";

/** A checkout has the addon beside this package; an installed package has it inside, and beside it are strangers. */
const NATIVE_FOLDER = import.meta.url.endsWith(".ts") ? "../native/" : "native/";

/** The script that makes the addon. */
export const buildScriptPath = (packageRoot: URL): string =>
  fileURLToPath(new URL(`${NATIVE_FOLDER}scripts/build.mjs`, packageRoot));

/** Resolves with 0, or with the exit code of the build, which has printed its reason. */
export const ensureAddon = (packageRoot: URL): Promise<number> => {
  return new Promise((resolve) => {
    const build = spawn(process.execPath, [buildScriptPath(packageRoot), "--if-missing"], {
      stdio: ["ignore", "ignore", "inherit"],
    });
    build.on("error", () => resolve(exitCodes.osError));
    build.on("exit", (code) => resolve(code ?? exitCodes.software));
  });
};
