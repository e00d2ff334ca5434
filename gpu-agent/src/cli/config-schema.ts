/**
 * `gpu-agent config schema`: the configuration file as an example with a comment for every key, made from the option table alone. Pure but
 * for the command's own output. A key with a default stands there with it, so the file as printed changes nothing; one without is a
 * comment.
 */
import type { Command } from "commander";
import { LOCAL_KEY_VARIABLE, SIGNING_KEYS_VARIABLE } from "../config/secrets.ts";
import { fileKeyOf, type ServeOption, serveOptionList, variableOf } from "../config/serve-options.ts";
import type { CliContext } from "./context.ts";

const EXAMPLES = `
Examples:
  gpu-agent config schema > example.toml
  gpu-agent doctor --config example.toml --port 0`;

const HEADER = `# Configuration of gpu-agent serve. A flag beats the environment, the environment beats this file.
# Every key may be left out. Paths are relative to the working directory.`;

const AUTH = `# Who may ask: files that hold keys, never the keys themselves. At least one of these or of the variables
# ${SIGNING_KEYS_VARIABLE} and ${LOCAL_KEY_VARIABLE} must be set.
[auth]
# What an edge signs with: JSON {"<key id>": "<32 or more bytes, base64url>"}; gpu-agent keys create makes it.
# signing_keys_file = "signing-keys.json"
# For clients in this network: one line, 16 to 256 letters, digits or any of . _ ~ + / -
# local_key_file = "local-key.txt"`;

/** A default in TOML; undefined where there is none that the file could hold. JSON's texts, numbers and truth values are TOML's too. */
const tomlValue = (option: ServeOption<unknown>): string | undefined => {
  const { fallback } = option;
  if (!option.schema.safeParse(fallback).success) return undefined;
  return typeof fallback === "object" || fallback === undefined ? undefined : JSON.stringify(fallback);
};

const flagOf = ({ name, argument }: ServeOption<unknown>): string =>
  argument === null ? `--${name}` : `--${name} ${argument}`;

const entry = (option: ServeOption<unknown>): string => {
  const value = tomlValue(option);
  const key = fileKeyOf(option.name);
  return [
    `# ${option.help}`,
    `# ${option.expected}; default: ${option.fallbackText}; flag ${flagOf(option)}; env ${variableOf(option.name)}`,
    value === undefined ? `# ${key} = <${option.argument ?? option.expected}>` : `${key} = ${value}`,
  ].join("\n");
};

/** The example file, with a newline at its end. */
export const configSchema = (options: readonly ServeOption<unknown>[] = serveOptionList): string =>
  `${[HEADER, ...options.map(entry), AUTH].join("\n\n")}\n`;

/** Adds `config schema`. */
export const addConfigCommand = (program: Command, context: CliContext): void => {
  const config = program.command("config").description("About the configuration file.").addHelpText("after", EXAMPLES);
  config
    .command("schema")
    .description("Print an example file: every key with its meaning, type, default, flag and variable.")
    .action(() => context.writeOut(configSchema()));
};
