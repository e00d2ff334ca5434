/** The machine that a benchmark runs on. */
import { arch, availableParallelism, cpus, loadavg, platform, release, totalmem } from "node:os";
import type { Machine } from "./machine-line.ts";

export const describeMachine = (): Machine => ({
  cpu: `${availableParallelism()} x ${cpus()[0]?.model ?? "unknown"}`,
  memoryGib: Math.round(totalmem() / 2 ** 30),
  system: `${platform()} ${release()} ${arch()}`,
  node: process.versions.node,
  loadAverage: Number((loadavg()[0] ?? 0).toFixed(2)),
});
