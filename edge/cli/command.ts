/** What all commands share: where the edge is, `--json`, and how an answer is printed. */
import { type Command, Option } from "commander";
import type { z } from "zod";
import { CREDENTIAL_VARIABLE, findAccess, URL_VARIABLE } from "./access.ts";
import { type Ask, askPages, askWith, MAX_PAGES } from "./call.ts";
import { wholeNumber } from "./values.ts";

export interface CliContext {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly writeOut: (text: string) => void;
  readonly writeError: (text: string) => void;
  /** Unix time, ms. */
  readonly nowMs: number;
  /** Sets the exit code of a command that has not failed. */
  readonly endWith: (exitCode: number) => void;
}

/** Values of a command's options, as commander has them. */
export type Values = Readonly<Record<string, unknown>>;

interface Run {
  readonly ask: Ask;
  readonly values: Values;
  readonly args: readonly string[];
  /** Prints JSON, or the text for people that `human` makes. */
  readonly print: (value: unknown, human: () => string) => void;
  readonly context: CliContext;
}

const DEFAULT_ROWS = 100;
const MAX_ROWS = 10_000;
/** Rows of one page. */
const PAGE_ROWS = 500;

/** Adds a command; `words` are its name and arguments. */
export const addCommand = (
  parent: Command,
  words: string,
  description: string,
  options: readonly Option[],
  context: CliContext,
  run: (run: Run) => Promise<void>,
): void => {
  const command = parent.command(words).description(description).allowExcessArguments(false);
  for (const option of options) command.addOption(option);
  command
    .option("--url <URL>", `the edge (env ${URL_VARIABLE})`)
    .option("--credential <FILE>", `a file with {"url", "token"}, mode 0600 (env ${CREDENTIAL_VARIABLE})`)
    .option("--json", "print JSON")
    .action(async () => {
      const values: Values & { url?: string; credential?: string; json?: boolean } = command.opts();
      await run({
        ask: askWith(findAccess(values, context.env)),
        values,
        args: command.processedArgs as string[],
        print: (value, human) => context.writeOut(`${values.json === true ? JSON.stringify(value) : human()}\n`),
        context,
      });
    });
};

/** An option; `--name <VALUE>` and what it is for. */
export const option = (flags: string, description: string, parse?: (text: string) => unknown): Option => {
  const made = new Option(flags, description);
  return parse === undefined ? made : made.argParser(parse);
};

export const required = (made: Option): Option => made.makeOptionMandatory();

/** How many rows a list prints. */
export const limitOption = (): Option =>
  option("--limit <NUMBER>", "most rows", wholeNumber(1, MAX_ROWS)).default(DEFAULT_ROWS);

/** Asks for a list and prints it. `query` takes values by the API's names; undefined ones are left out. */
export const printList = async <T>(
  { ask, values, print, context }: Run,
  row: z.ZodType<T>,
  path: string,
  query: Readonly<Record<string, unknown>>,
  human: (rows: readonly T[]) => string,
): Promise<readonly T[]> => {
  const rows = Number(values.limit ?? DEFAULT_ROWS);
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined) params.set(name, String(value));
  if (!params.has("limit")) params.set("limit", String(Math.min(rows, PAGE_ROWS)));
  const { data, more } = await askPages(ask, row, path, params, rows);
  print({ data, more }, () => (data.length === 0 ? "none" : human(data)));
  if (more)
    context.writeError(
      `more than ${data.length} rows; see further with --limit (at most ${MAX_PAGES} pages are read)\n`,
    );
  return data;
};
