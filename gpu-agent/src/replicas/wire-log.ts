/**
 * `--wire-log`: every line of both directions with a time stamp, for people and for tests. One file an engine process:
 * `<ISO time> > line` for what the agent wrote, `<` for what it read. Lines carry their turn tag where the engine tags.
 *
 * Written synchronously, so that a line is in the file before anything that follows from it is visible outside. A debugging aid: it
 * costs a write a chunk.
 */
import { closeSync, mkdirSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";

export interface WireLog {
  sent(line: string): void;
  received(chunk: Buffer): void;
  close(): void;
}

/** Opens `replica-<index>.<pid>.wire.log` in a directory that is made when missing. */
export const openWireLog = (directory: string, index: number, pid: number): WireLog => {
  mkdirSync(directory, { recursive: true });
  const file = openSync(join(directory, `replica-${index}.${pid}.wire.log`), "a");
  let open = true;
  let partial: Buffer = Buffer.alloc(0);
  const stamp = () => new Date().toISOString();
  const put = (text: string) => {
    if (open) writeSync(file, text);
  };
  return {
    sent: (line) => put(`${stamp()} > ${line}`),
    received: (chunk) => {
      const bytes = partial.length === 0 ? chunk : Buffer.concat([partial, chunk]);
      const end = bytes.lastIndexOf(10);
      partial = bytes.subarray(end + 1);
      if (end === -1) return;
      const now = stamp();
      put(
        bytes
          .toString("utf8", 0, end)
          .split("\n")
          .map((line) => `${now} < ${line}\n`)
          .join(""),
      );
    },
    close: () => {
      if (!open) return;
      if (partial.length > 0) put(`${stamp()} < ${partial.toString("utf8")} (no line end)\n`);
      open = false;
      closeSync(file);
    },
  };
};
