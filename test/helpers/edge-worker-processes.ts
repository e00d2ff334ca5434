/**
 * Whether a process that is no child of ours still runs. Linux only: it reads /proc.
 */
import { readFile } from "node:fs/promises";

/** Who was killed is gone long before; only a process that stays makes a test wait so long. */
const GONE_TIMEOUT_MS = 20_000;
const POLL_MS = 20;

/** False for a zombie too: it holds nothing any more, and who collects it is not ours to say. */
export const isRunning = async (pid: number): Promise<boolean> => {
  const status = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => undefined);
  return status !== undefined && !/\) [ZX] /.test(status);
};

/** True once it is gone, false if it stays. */
export const untilGone = async (pid: number): Promise<boolean> => {
  const deadline = Date.now() + GONE_TIMEOUT_MS;
  while (await isRunning(pid)) {
    if (Date.now() > deadline) return false;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  return true;
};
