/**
 * The command line of `npm start`: what can be chosen, and how a wrong choice is told.
 *
 * It parses and starts nothing. Deliberately absent: any flag that takes a key.
 */
import { resolve } from "node:path";
import { Command, CommanderError, InvalidArgumentError } from "commander";

/** Exit codes of the starter, those of BSD's sysexits.h; an agent that fails at start has its own passed through. */
export const startExitCodes = { ok: 0, usage: 64, unavailable: 69, software: 70, killed: 130 } as const;

/** More agents than one machine has a use for. */
const MAX_AGENTS = 8;

export interface StartOptions {
  readonly edgePort: number;
  /** The first agent's; the others' follow. 0 takes free ones. */
  readonly agentPort: number;
  readonly agents: number;
  readonly replicas: number;
  readonly slots: number;
  /** Absolute; undefined takes the built-in model. */
  readonly modelPath: string | undefined;
  /** Absolute; undefined writes no log. */
  readonly wireLogDirectory: string | undefined;
  readonly json: boolean;
}

export type StartOptionsResult =
  | { readonly ok: true; readonly options: StartOptions }
  /** Text for stdout (help) or stderr, and the code to exit with. */
  | { readonly ok: false; readonly exitCode: number; readonly text: string };

const integer =
  (low: number, high: number) =>
  (text: string): number => {
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= low && value <= high) return value;
    throw new InvalidArgumentError(`It must be a whole number from ${low} to ${high}.`);
  };

const notes = `
With --json exactly one line goes to stdout, once everything is ready:
  {"edge":URL,"agent":URL,"agents":[{"name":NAME,"url":URL}],"key":KEY,"admin":FILE,"model":NAME,
   "pids":{"edge":[N],"agent":N,"agents":[N],"replicas":[N],"start":N}}
("agent" is the first of the agents). Progress and logs go to stderr. The key is new at every start and lives in memory alone. The file
holds the admin credential, for npm run admin -- --credential FILE; it is yours alone and gone with the end of the run.

Ctrl-C or SIGTERM lets running turns finish for a few seconds, stops everything and exits 0; a second one kills at once.
Exit codes: 64 wrong usage, 69 a port is taken or a prerequisite is missing, 70 something that ran has failed; an agent that does not
start passes its own code on (66: no such model file).`;

/** Parses the words after the script's name; relative paths count from `directory`. */
export const parseStartOptions = (words: readonly string[], directory: string): StartOptionsResult => {
  let text = "";
  const write = (written: string): void => {
    text += written;
  };
  const command = new Command("npm start --")
    .description(
      "Starts GPU agents with their replicas and an edge in front of them on this machine, with a fresh demo key.",
    )
    .option("--port <NUMBER>", "the edge's port; 0 takes a free one", integer(0, 65_535), 8787)
    .option("--agent-port <NUMBER>", "the agent's port; 0 takes a free one", integer(0, 65_535), 8788)
    .option("--agents <NUMBER>", "GPU agents; their ports follow the first one's", integer(1, MAX_AGENTS), 1)
    .option("--replicas <NUMBER>", "engine processes, each with the whole model", integer(1, 16), 2)
    .option("--slots <NUMBER>", "turns that one replica decodes together", integer(1, 64), 1)
    .option("--model <FILE>", "a GGUF file (default: the built-in model)")
    .option("--wire-log <DIR>", "write every line between agent and engines here")
    .option("--json", "print one JSON line when ready")
    .addHelpText("after", notes)
    .allowExcessArguments(false)
    .exitOverride()
    .configureOutput({ writeOut: write, writeErr: write });
  try {
    command.parse([...words], { from: "user" });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    return { ok: false, exitCode: error.exitCode === 0 ? startExitCodes.ok : startExitCodes.usage, text };
  }
  const values = command.opts<{
    port: number;
    agentPort: number;
    agents: number;
    replicas: number;
    slots: number;
    model?: string;
    wireLog?: string;
    json?: boolean;
  }>();
  return {
    ok: true,
    options: {
      edgePort: values.port,
      agentPort: values.agentPort,
      agents: values.agents,
      replicas: values.replicas,
      slots: values.slots,
      modelPath: values.model === undefined ? undefined : resolve(directory, values.model),
      wireLogDirectory: values.wireLog === undefined ? undefined : resolve(directory, values.wireLog),
      json: values.json ?? false,
    },
  };
};
