/** What a process holds and has used, read from Linux's /proc (proc(5)). Elsewhere, and for a process that is gone, undefined. */
import { readFileSync } from "node:fs";

/** The kernel counts CPU time in units of 1/100 s for user space, on every architecture that Node runs on. */
const CLOCK_TICK_MS = 10;
/** Fields 14 and 15 of /proc/<pid>/stat, counted behind the command's closing bracket. */
const [USER_TICKS, SYSTEM_TICKS] = [11, 12];

const read = (path: string): string | undefined => {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
};

/** Memory that is resident now, and the most that ever was, bytes. */
export const residentMemory = (pid: number): { readonly nowBytes: number; readonly peakBytes: number } | undefined => {
  const status = read(`/proc/${pid}/status`);
  const field = (name: string): number =>
    Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, "m").exec(status ?? "")?.[1]) * 1024;
  const [nowBytes, peakBytes] = [field("VmRSS"), field("VmHWM")];
  return Number.isNaN(nowBytes) || Number.isNaN(peakBytes) ? undefined : { nowBytes, peakBytes };
};

/** User and system time of all its threads since it started, ms. */
export const cpuTimeMs = (pid: number): number | undefined => {
  const stat = read(`/proc/${pid}/stat`);
  const fields = stat?.slice(stat.lastIndexOf(")") + 2).split(" ");
  const ticks = Number(fields?.[USER_TICKS]) + Number(fields?.[SYSTEM_TICKS]);
  return Number.isNaN(ticks) ? undefined : ticks * CLOCK_TICK_MS;
};
