/**
 * The options of the commands beside `serve`. They are entries of the same kind as serve's, so each has a flag, a line of --help and an
 * environment twin, which carries the command's name: `--url` of `status` is LOCKGATE_STATUS_URL.
 *
 * Deliberately absent: a configuration file; that is serve's (and doctor's, which reads serve's).
 */
import type { Command } from "commander";
import { addFlag, readFlags, type ServeFlags } from "../config/command-line.ts";
import { noFile, takeOption } from "../config/load-serve-config.ts";
import type { ConfigFault } from "../config/outcome.ts";
import { type ServeOption, toggle, variableOf } from "../config/serve-options.ts";
import { type CliContext, failWith } from "./context.ts";

export type CommandOptions = Readonly<Record<string, ServeOption<unknown>>>;
type ValueOf<O> = O extends ServeOption<infer T> ? T : never;
export type CommandValues<O extends CommandOptions> = { readonly [K in keyof O]: ValueOf<O[K]> };

/** Most commands can say what they found as JSON. */
export const jsonOption = toggle({ name: "json", help: "print JSON", fallback: false });

/** `url` of `status` as LOCKGATE_STATUS_URL; `group` is the command's path, its words joined by hyphens. */
export const twinOf = (group: string, name: string): string => variableOf(`${group}-${name}`);

/** The values of a command's options: a flag beats its variable. The first bad one is a fault that names its source. */
export const takeCommandOptions = <O extends CommandOptions>(
  group: string,
  options: O,
  flags: ServeFlags,
  env: Readonly<Record<string, string | undefined>>,
): { readonly ok: true; readonly values: CommandValues<O> } | ConfigFault => {
  const values: Record<string, unknown> = {};
  for (const [key, option] of Object.entries(options)) {
    const taken = takeOption(option, flags, env, noFile, twinOf(group, option.name));
    if (!taken.ok) return taken;
    values[key] = taken.value;
  }
  return { ok: true, values: values as CommandValues<O> };
};

/** Gives a command its options and what it does with their values; `run` gets the command's arguments too and returns the exit code. */
export const addAction = <O extends CommandOptions>(
  command: Command,
  group: string,
  options: O,
  context: CliContext,
  run: (values: CommandValues<O>, ...args: readonly string[]) => number | Promise<number>,
): void => {
  for (const option of Object.values(options)) addFlag(command, option, twinOf(group, option.name));
  command.action(async () => {
    const taken = takeCommandOptions(group, options, readFlags(command), context.env);
    context.endWith(
      taken.ok ? await run(taken.values, ...command.processedArgs) : failWith(context, taken.exitCode, taken.message),
    );
  });
};
