/**
 * The command line: the program, its `serve` command with a flag for every entry of the option table, and its exit codes.
 *
 * It only splits words: flags come out as the text that was typed, and load-serve-config.ts weighs them against the environment and
 * the file. Other commands (replica-host) are added by whoever owns them. Deliberately absent: any flag that takes a secret.
 */
import { Command, CommanderError, Option } from "commander";
import { z } from "zod";
import { exitCodes } from "./exit-codes.ts";
import { type ServeOption, serveOptionList, variableOf } from "./serve-options.ts";

/** What was typed: text by flag name, `true` or `false` for a switch. Flags that were not typed are absent. */
export type ServeFlags = ReadonlyMap<string, string | boolean>;

/** The flag that names the configuration file; not a table entry, since it cannot stand in that file. */
export const CONFIG_FLAG = "config";

export interface ProgramOptions {
  /** What --version prints. */
  readonly version: string;
  readonly writeOut: (text: string) => void;
  readonly writeError: (text: string) => void;
}

const EXAMPLES = `
Examples:
  LOCKGATE_LOCAL_KEY=$(node -p "crypto.randomBytes(24).toString('hex')") gpu-agent serve
  gpu-agent serve --model ./model.gguf --slots 4 --context 2048
  gpu-agent serve --config ./agent.toml --port 0 --json

A key is needed, from the environment or a file, never a flag: LOCKGATE_LOCAL_KEY for clients in this network,
LOCKGATE_SIGNING_KEYS ({"<key id>": "<secret, base64url>"}) for an edge. A configuration file looks like this:
  port = 8788
  slots = 4
  [auth]
  signing_keys_file = "signing-keys.json"
A flag beats the environment, the environment beats the file. Paths are relative to the working directory.`;

/** The program without commands. Parse errors throw CommanderError (see runProgram) and never end the process. */
export const createProgram = ({ version, writeOut, writeError }: ProgramOptions): Command =>
  new Command("gpu-agent")
    .description("Serves a GGUF model over an OpenAI-compatible API, one process per replica.")
    .version(version)
    .exitOverride()
    .configureOutput({ writeOut, writeErr: writeError })
    .addHelpText("after", EXAMPLES);

/** Adds the flag of one option; its environment twin is `variableName`. */
export const addFlag = (
  command: Command,
  { name, argument, help, fallbackText }: ServeOption<unknown>,
  variableName: string,
): void => {
  const explained = `${help} (default: ${fallbackText}; env ${variableName})`;
  if (argument !== null) {
    command.option(`--${name} <${argument}>`, explained);
    return;
  }
  command.option(`--${name}`, explained);
  // So that a flag can beat an environment that says true.
  command.addOption(new Option(`--no-${name}`).hideHelp());
};

const flagValue = z.union([z.string(), z.boolean()]);

/** What was typed of a command's flags. */
export const readFlags = (command: Command): ServeFlags => {
  const flags = new Map<string, string | boolean>();
  const values = command.opts();
  for (const option of command.options) {
    const parsed = flagValue.safeParse(values[option.attributeName()]);
    const name = (option.long ?? "").replace(/^--(no-)?/, "");
    if (parsed.success && command.getOptionValueSource(option.attributeName()) === "cli") flags.set(name, parsed.data);
  }
  return flags;
};

/** Adds --config and the flags of the option table, but for those named in `left`. */
export const addServeFlags = (command: Command, left: readonly string[]): void => {
  command.option(`--${CONFIG_FLAG} <FILE>`, `a TOML file with any of these options (env ${variableOf(CONFIG_FLAG)})`);
  for (const option of serveOptionList) {
    if (!left.includes(option.name)) addFlag(command, option, variableOf(option.name));
  }
};

/** Adds `serve`, which also runs when no command is named. */
export const addServeCommand = (program: Command, onServe: (flags: ServeFlags) => void | Promise<void>): Command => {
  const serve = program
    .command("serve", { isDefault: true })
    .description("Load the model, start the replicas and listen.")
    .addHelpText("after", EXAMPLES);
  addServeFlags(serve, []);
  return serve.action(() => onServe(readFlags(serve)));
};

/** The exit code of a parse that stopped: 0 after --help and --version, else usage. */
export const parseExitCode = (error: CommanderError): typeof exitCodes.ok | typeof exitCodes.usage =>
  error.exitCode === 0 ? exitCodes.ok : exitCodes.usage;

/**
 * Parses the words after the program's name and runs the command they name.
 *
 * Resolves with the exit code of a parse that stopped, or null once a command's action ended. An action's own error is passed on.
 */
export const runProgram = async (program: Command, words: readonly string[]): Promise<number | null> => {
  try {
    await program.parseAsync([...words], { from: "user" });
    return null;
  } catch (error) {
    if (error instanceof CommanderError) return parseExitCode(error);
    throw error;
  }
};
