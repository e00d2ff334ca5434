/**
 * One agent a spool: two would write over each other's cursor. The lock is a socket in Linux's abstract namespace, named by the directory,
 * which the kernel frees with the process, however that ends; a lock file would outlive a kill.
 *
 * Elsewhere than on Linux there is none. It does not see agents in other network namespaces (containers that share the directory).
 */
import { createHash } from "node:crypto";
import { once } from "node:events";
import { realpathSync } from "node:fs";
import { createServer } from "node:net";

const NAME_DIGITS = 32;

/** Takes the lock of a directory that exists; undefined where another process has it, else what gives it back. */
export const lockSpool = async (directory: string): Promise<(() => void) | undefined> => {
  if (process.platform !== "linux") return () => {};
  const digest = createHash("sha256").update(realpathSync(directory)).digest("hex").slice(0, NAME_DIGITS);
  const server = createServer((socket) => socket.destroy()).unref();
  try {
    server.listen({ path: `\0lockgate-spool-${digest}` });
    await once(server, "listening");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EADDRINUSE") return undefined;
    throw error;
  }
  return () => void server.close();
};
