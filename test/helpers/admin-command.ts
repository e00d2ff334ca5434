/** Runs the admin command as `npm run admin` does, with an environment of its own. */
import { fileURLToPath } from "node:url";
import { startScript } from "./processes.ts";

const script = fileURLToPath(new URL("../../edge/cli/admin.ts", import.meta.url));

export interface CommandEnd {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export const runAdminCommand = async (
  words: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<CommandEnd> => {
  const started = startScript(script, words, { PATH: process.env.PATH, ...env });
  const lines: string[] = [];
  started.stdout.on("line", (line) => lines.push(line));
  const closed = new Promise<void>((resolve) => started.stdout.once("close", resolve));
  const code = await started.exited;
  await closed;
  return { code, stdout: lines.map((line) => `${line}\n`).join(""), stderr: await started.stderr };
};
