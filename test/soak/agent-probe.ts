/**
 * Loaded into the agent before its own code (`node --import`), by the soak alone: at SIGUSR2 it writes what keeps the event loop alive and
 * how much heap is left after a collection. The agent itself knows nothing of it, and does not offer it.
 *
 * The file's name comes from SOAK_PROBE_FILE; without it, and in the replicas, which inherit the environment, nothing happens.
 */
import { renameSync, writeFileSync } from "node:fs";

const file = process.env.SOAK_PROBE_FILE;

if (file !== undefined && process.argv[2] === "serve") {
  let number = 0;
  process.on("SIGUSR2", () => {
    globalThis.gc?.();
    const resources: Record<string, number> = {};
    for (const kind of process.getActiveResourcesInfo()) resources[kind] = (resources[kind] ?? 0) + 1;
    const { heapUsed, external } = process.memoryUsage();
    writeFileSync(`${file}.next`, JSON.stringify({ number: ++number, heapBytes: heapUsed + external, resources }));
    renameSync(`${file}.next`, file); // a reader never sees half of it
  });
}
