/** What builds that were killed leave behind, told apart from what running ones need by the process id in the name. */
import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";

export function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === "EPERM";
  }
}

/** Removes `<prefix><pid>` in the folder wherever that process is gone. */
export function removeLeftovers(folder, prefix) {
  for (const name of readdirSync(folder)) {
    const pid = name.startsWith(prefix) ? Number(name.slice(prefix.length)) : Number.NaN;
    if (Number.isInteger(pid) && pid > 0 && !isAlive(pid)) {
      rmSync(join(folder, name), { recursive: true, force: true });
    }
  }
}
