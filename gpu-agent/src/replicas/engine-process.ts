/**
 * The real process behind an engine: spawned, its two pipes wired to the pump, its stderr handed on line by line. No protocol here.
 *
 * Each engine leads a process group of its own: a Ctrl-C at the agent's terminal is not meant for engines whose turns may still finish,
 * and a kill reaches what a shell in front of the engine started.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import type { EngineEvents, EngineProcess, SpawnEngine } from "./engine.ts";
import type { WireLog } from "./wire-log.ts";

/** Longest time that output is waited for once the process has ended. */
const OUTPUT_AFTER_EXIT_MS = 1_000;

export interface EngineCommand {
  readonly command: string;
  readonly args: readonly string[];
  readonly env?: NodeJS.ProcessEnv | undefined;
  /** A line of the engine's stderr. */
  readonly onStderr: (line: string) => void;
  /** Opens the log of one incarnation; absent: nothing is logged. */
  readonly openWireLog?: ((pid: number) => WireLog) | undefined;
}

/** How an engine is started from a command line. A command that cannot be started reports exit code 127 (no such command) or 126. */
export const spawnEngineProcess =
  (command: EngineCommand): SpawnEngine =>
  (events: EngineEvents): EngineProcess => {
    const child: ChildProcess = spawn(command.command, [...command.args], {
      stdio: ["pipe", "pipe", "pipe"],
      env: command.env,
      detached: true,
    });
    const { stdin, stdout, stderr } = child;
    if (stdin === null || stdout === null || stderr === null) throw new Error("the engine's pipes were not made");
    const log = child.pid === undefined ? undefined : command.openWireLog?.(child.pid);
    stdin.on("error", () => {}); // a broken pipe is told by the exit
    stdout.on("data", (chunk: Buffer) => {
      log?.received(chunk);
      events.output(chunk);
    });
    stdout.on("end", () => events.end());
    stdout.on("error", () => events.end());
    createInterface({ input: stderr }).on("line", command.onStderr);
    child.on("error", (error: NodeJS.ErrnoException) => {
      command.onStderr(`cannot start ${command.command}: ${error.code ?? error.message}`);
      if (child.pid === undefined) events.exit({ code: error.code === "ENOENT" ? 127 : 126, signal: null });
    });
    const kill = (signal: NodeJS.Signals) => {
      if (child.pid === undefined) return;
      try {
        process.kill(-child.pid, signal);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error; // nobody is left in the group
      }
    };
    // Told when the output was read to its end, so that a last DONE is not lost; a grandchild that holds the pipe longer is killed.
    let told = false;
    const tellExit = (code: number | null, signal: NodeJS.Signals | null) => {
      if (told) return;
      told = true;
      log?.close();
      events.exit({ code, signal });
    };
    child.on("exit", (code, signal) => {
      stdin.destroy(); // where the command is a shell, what it started reads the end of its input
      setTimeout(() => {
        if (!told) kill("SIGKILL");
        tellExit(code, signal);
      }, OUTPUT_AFTER_EXIT_MS).unref();
    });
    child.on("close", tellExit);
    return {
      pid: child.pid,
      write: (line) => {
        log?.sent(line);
        if (stdin.writable) stdin.write(line);
      },
      kill,
      pause: () => void stdout.pause(),
      resume: () => void stdout.resume(),
    };
  };
