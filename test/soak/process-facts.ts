/**
 * What the kernel knows of processes (Linux, proc(5)): open files by kind, resident memory, and every process that carries a mark in its
 * environment, so that nothing else is ever signalled.
 */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";

/** Open file descriptors by what they lead to, `socket`, `pipe`, `anon_inode` or `file`; undefined for a process that is gone. */
export const openFiles = (pid: number): Readonly<Record<string, number>> | undefined => {
  const kinds: Record<string, number> = {};
  try {
    for (const descriptor of readdirSync(`/proc/${pid}/fd`)) {
      const kind = kindOf(pid, descriptor);
      if (kind !== undefined) kinds[kind] = (kinds[kind] ?? 0) + 1;
    }
    return kinds;
  } catch {
    return undefined;
  }
};

const kindOf = (pid: number, descriptor: string): string | undefined => {
  try {
    const target = readlinkSync(`/proc/${pid}/fd/${descriptor}`);
    return /^(socket|pipe|anon_inode):/.exec(target)?.[1] ?? "file";
  } catch {
    return undefined; // closed meanwhile
  }
};

/** Memory that is resident now, bytes; 0 for a process that is gone. */
export const residentBytes = (pid: number): number => {
  try {
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) * 1024;
  } catch {
    return 0;
  }
};

/** Whether a process runs, a zombie excluded, with `NAME=value` in its environment. */
export const carriesMark = (pid: number, mark: string): boolean => {
  try {
    return readFileSync(`/proc/${pid}/environ`, "latin1").split("\0").includes(mark);
  } catch {
    return false;
  }
};

/** Every process with the mark, this one excluded. A zombie has no environment any more. */
export const markedProcesses = (mark: string): readonly number[] =>
  readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => pid !== process.pid && carriesMark(pid, mark));

/** Sends a signal; a process that is gone meanwhile needs none. */
export const signalTo = (pid: number, signal: NodeJS.Signals): void => {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
};

/** Counts of `found` that exceed those of `baseline`, by kind. */
export const excessOver = (
  baseline: Readonly<Record<string, number>>,
  found: Readonly<Record<string, number>>,
): Readonly<Record<string, number>> =>
  Object.fromEntries(
    Object.entries(found)
      .map(([kind, count]) => [kind, count - (baseline[kind] ?? 0)] as const)
      .filter(([, more]) => more > 0),
  );

/** The largest count of each kind. */
export const mostOf = (all: readonly Readonly<Record<string, number>>[]): Readonly<Record<string, number>> => {
  const most: Record<string, number> = {};
  for (const one of all) for (const [kind, count] of Object.entries(one)) most[kind] = Math.max(most[kind] ?? 0, count);
  return most;
};
