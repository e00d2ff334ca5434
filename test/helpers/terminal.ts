/** Runs a command in a terminal of its own (a pty, made by Python's standard library), for what only shows there. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { plainEnvironment } from "./agent-command.ts";

export interface Terminal {
  /** Everything that was drawn so far, escape sequences included. */
  readonly drawn: () => string;
  /** Resolves once what was drawn is as wanted; rejects with it when the command ends before. */
  readonly until: (wanted: (drawn: string) => boolean) => Promise<void>;
  /** Presses keys: text, or a control character such as "\u0003" for Ctrl-C. */
  readonly press: (keys: string) => void;
  readonly exited: Promise<number | null>;
}

const IN_A_PTY = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";
const COLUMNS = 100;
const ROWS = 30;

export const openTerminal = (script: string, words: readonly string[], env: NodeJS.ProcessEnv): Terminal => {
  const sized = `stty cols ${COLUMNS} rows ${ROWS}; exec "$@"`;
  const child = spawn("python3", ["-c", IN_A_PTY, "sh", "-c", sized, "sh", process.execPath, script, ...words], {
    stdio: ["pipe", "pipe", "inherit"],
    env: { ...plainEnvironment(), ...env },
  });
  let drawn = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    drawn += text;
  });
  const exited = once(child, "close").then(([code]) => code as number | null);
  return {
    drawn: () => drawn,
    until: async (wanted) => {
      const ended = exited.then((code) => Promise.reject(new Error(`exit ${code}: ${drawn}`)));
      ended.catch(() => {}); // an end that comes after what was waited for
      while (!wanted(drawn)) await Promise.race([once(child.stdout, "data"), ended]);
    },
    press: (keys) => void child.stdin.write(keys),
    exited,
  };
};
