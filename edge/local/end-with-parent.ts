/**
 * Ends a process when this one ends, however it ends: a SIGKILL runs no handler here, and workerd does not notice it.
 *
 * A shell waits on a pipe whose other end only we hold. The kernel closes it when we are gone; the shell then kills its charge.
 */
import { spawn } from "node:child_process";

/** `$1` is the pid. Ctrl-C reaches the whole foreground group: the shell must outlive it, or nothing is left to do its work. */
const script = 'trap "" INT TERM HUP; read -r word; [ "$word" = stand-down ] || kill -KILL "$1" 2>/dev/null';

/** Starts the watch over `pid`. Call the returned function once that process has ended, lest its pid be another's by then. */
export const endWithParent = (pid: number): (() => void) => {
  const watcher = spawn("/bin/sh", ["-c", script, "sh", String(pid)], { stdio: ["pipe", "ignore", "ignore"] });
  watcher.unref();
  watcher.stdin.on("error", () => undefined);
  return () => watcher.stdin.end("stand-down\n");
};
