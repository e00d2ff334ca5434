/**
 * CPU time of a process and of all that it started, from Linux's /proc (proc_pid_stat(5)): an engine may be behind a shell. The file
 * reader is passed in. Other systems, and kernels without the list of children, give undefined: nothing is concluded there.
 */

/** Processes of one engine that are looked at; more than this and nothing is concluded. */
const MAX_PROCESSES = 256;

/** Ticks of utime and stime a second: USER_HZ, 100 on every Linux that Node runs on. */
const TICKS_PER_SECOND = 100;

/** utime + stime in ticks out of the text of /proc/<pid>/stat; the name in parentheses may hold anything. */
const ticksOf = (stat: string): number => {
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return Number(fields[11]) + Number(fields[12]);
};

/** ms of CPU time of the tree below `pid`, itself included; undefined where it cannot be read. */
export const cpuTimeMs = (
  pid: number,
  readFile: (path: string) => string,
  listFolder: (path: string) => readonly string[],
): number | undefined => {
  const pids = [pid];
  let ticks = 0;
  try {
    for (let at = 0; at < pids.length; at++) {
      if (pids.length > MAX_PROCESSES) return undefined;
      const folder = `/proc/${pids[at]}`;
      ticks += ticksOf(readFile(`${folder}/stat`));
      for (const thread of listFolder(`${folder}/task`)) {
        const children = readFile(`${folder}/task/${thread}/children`);
        pids.push(
          ...children
            .split(" ")
            .filter((word) => word !== "")
            .map(Number),
        );
      }
    }
  } catch {
    return undefined; // it ended while it was looked at, or this is no such system
  }
  return Number.isFinite(ticks) ? (ticks * 1000) / TICKS_PER_SECOND : undefined;
};
