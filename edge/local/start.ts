/**
 * The entry of `npm start`. It notes its parent before anything else is loaded: loading takes half a second, and an npm that is killed in it
 * would leave a starter that took its reaper for npm.
 */
import { readFileSync } from "node:fs";

const parent = process.ppid;

/** Whether the parent is a package manager still; true where the system does not tell. */
const startedByPackageManager = (): boolean => {
  try {
    return /npm|pnpm|yarn|bun|node/.test(readFileSync(`/proc/${parent}/cmdline`, "utf8"));
  } catch {
    return process.platform !== "linux";
  }
};

if (process.env.npm_lifecycle_event !== undefined && !startedByPackageManager()) {
  process.stderr.write("lockgate: npm has ended; not starting\n");
  process.exit(0);
}
const { runStarter } = await import("./starter.ts");
await runStarter(parent);
