/**
 * The one table of what `serve` can be told. From each entry's name come its flag (`--wire-log`), its environment twin
 * (`LOCKGATE_WIRE_LOG`), its key in the file (`wire_log`) and its line of --help.
 *
 * Deliberately absent: secrets. A flag would show them in every process list; secrets.ts reads them from the environment or a file.
 */
import { z } from "zod";

/** One option. `T` includes undefined where it has no default of its own. */
export interface ServeOption<T> {
  /** In words joined by hyphens. */
  readonly name: string;
  /** How --help names its value; null for a switch. */
  readonly argument: string | null;
  readonly help: string;
  readonly schema: z.ZodType<T>;
  /** What the text of a flag or variable stands for; the schema judges the result. */
  readonly fromText: (text: string) => unknown;
  /** What a right value is, for errors: "it must be …". */
  readonly expected: string;
  readonly fallback: T;
  /** The default in words for --help. */
  readonly fallbackText: string;
}

type Common<T> = Pick<ServeOption<T>, "name" | "help" | "fallback"> & { readonly fallbackText?: string };

const fallbackTextOf = (option: Common<unknown>): string => option.fallbackText ?? String(option.fallback);

const asNumber = (text: string): unknown => (/^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text);

const asSwitch = (text: string): unknown => {
  if (text === "true" || text === "1") return true;
  return text === "false" || text === "0" ? false : text;
};

const MAX_TEXT_CHARS = 4_096;
const MAX_LIST_ITEMS = 64;

const text = <T extends string | undefined>(
  option: Common<T | string> & { argument: string },
): ServeOption<T | string> => ({
  ...option,
  schema: z.string().min(1).max(MAX_TEXT_CHARS),
  fromText: (value) => value,
  expected: "text that is not empty",
  fallbackText: fallbackTextOf(option),
});

const integer = <T extends number | undefined>(
  option: Common<T | number> & { low: number; high: number },
): ServeOption<T | number> => ({
  ...option,
  argument: "NUMBER",
  schema: z.number().int().min(option.low).max(option.high),
  fromText: asNumber,
  expected: `a whole number from ${option.low} to ${option.high}`,
  fallbackText: fallbackTextOf(option),
});

const seconds = (option: Common<number> & { high: number }): ServeOption<number> => ({
  ...option,
  argument: "SECONDS",
  schema: z.number().gt(0).max(option.high),
  fromText: asNumber,
  expected: `a number of seconds above 0 and at most ${option.high}`,
  fallbackText: fallbackTextOf(option),
});

const choice = <const C extends string, T extends C | undefined>(
  option: Common<T | C> & { choices: readonly C[]; argument: string },
): ServeOption<T | C> => ({
  ...option,
  help: `${option.help}: ${option.choices.join(", ")}`,
  schema: z.enum(option.choices),
  fromText: (value) => value,
  expected: `one of ${option.choices.join(", ")}`,
  fallbackText: fallbackTextOf(option),
});

const list = (option: Common<readonly string[]> & { argument: string }): ServeOption<readonly string[]> => ({
  ...option,
  schema: z.array(z.string().min(1).max(MAX_TEXT_CHARS)).min(1).max(MAX_LIST_ITEMS),
  fromText: (value) => value.split(",").map((item) => item.trim()),
  expected: `a list of 1 to ${MAX_LIST_ITEMS} names (with commas between them; an array in the file)`,
  fallbackText: fallbackTextOf(option),
});

const toggle = (option: Common<boolean>): ServeOption<boolean> => ({
  ...option,
  argument: null,
  schema: z.boolean(),
  fromText: asSwitch,
  expected: "true or false",
  fallbackText: fallbackTextOf(option),
});

export const serveOptions = {
  model: text<undefined>({
    name: "model",
    argument: "FILE",
    help: "the model to serve, a GGUF file",
    fallback: undefined,
    fallbackText: "the built-in demo model",
  }),
  modelName: text<undefined>({
    name: "model-name",
    argument: "NAME",
    help: "the name that clients ask for",
    fallback: undefined,
    fallbackText: "the file's name without .gguf",
  }),
  host: text<string>({ name: "host", argument: "ADDRESS", help: "the address to listen on", fallback: "127.0.0.1" }),
  port: integer<number>({
    name: "port",
    help: "the port to listen on; 0 takes a free one",
    low: 0,
    high: 65_535,
    fallback: 8_788,
  }),
  replicas: integer<number>({
    name: "replicas",
    help: "engine processes, each with the whole model",
    low: 1,
    high: 16,
    fallback: 1,
  }),
  slots: integer<number>({
    name: "slots",
    help: "turns that one replica decodes together; 1 is unbatched",
    low: 1,
    high: 64,
    fallback: 1,
  }),
  context: integer<undefined>({
    name: "context",
    help: "tokens that a slot holds, prompt and answer",
    low: 16,
    high: 16_777_216,
    fallback: undefined,
    fallbackText: "what the model was trained for",
  }),
  threads: integer<undefined>({
    name: "threads",
    help: "CPU threads of each replica",
    low: 1,
    high: 512,
    fallback: undefined,
    fallbackText: "by model and free cores",
  }),
  devices: list({
    name: "devices",
    argument: "LIST",
    help: "the compute devices to use, e.g. CUDA0,CUDA1",
    fallback: [],
    fallbackText: "every GPU, else the CPU",
  }),
  kvType: choice({
    name: "kv-type",
    argument: "TYPE",
    help: "number format of the KV cache",
    choices: ["f32", "f16", "bf16", "q8_0", "q4_0"],
    fallback: undefined,
    fallbackText: "the engine's own",
  }),
  queue: integer<number>({
    name: "queue",
    help: "turns that may wait for one replica",
    low: 0,
    high: 4_096,
    fallback: 64,
  }),
  wireLog: text<undefined>({
    name: "wire-log",
    argument: "DIR",
    help: "write every line to and from the engines here; holds prompts as token ids",
    fallback: undefined,
    fallbackText: "off",
  }),
  readyTimeout: seconds({ name: "ready-timeout", help: "time a replica has to load", high: 86_400, fallback: 900 }),
  healCooldown: seconds({
    name: "heal-cooldown",
    help: "pause before a replica that was lost is started again",
    high: 3_600,
    fallback: 60,
  }),
  writeStallTimeout: seconds({
    name: "write-stall-timeout",
    help: "time after which a client that does not read counts as gone",
    high: 3_600,
    fallback: 30,
  }),
  drainTimeout: seconds({
    name: "drain-timeout",
    help: "time that running turns have to finish after SIGTERM",
    high: 3_600,
    fallback: 30,
  }),
  json: toggle({ name: "json", help: "print the ready line as JSON", fallback: false }),
  exitWithStdin: toggle({ name: "exit-with-stdin", help: "stop when standard input ends", fallback: false }),
  logLevel: choice({
    name: "log-level",
    argument: "LEVEL",
    help: "least level that is logged",
    choices: ["debug", "info", "warn", "error"],
    fallback: "info",
  }),
} as const;

/** The entries, in the order of --help. */
export const serveOptionList: readonly ServeOption<unknown>[] = Object.values(serveOptions);

/** `wire-log` as LOCKGATE_WIRE_LOG. */
export const variableOf = (name: string): string => `LOCKGATE_${name.toUpperCase().replaceAll("-", "_")}`;

/** `wire-log` as wire_log. */
export const fileKeyOf = (name: string): string => name.replaceAll("-", "_");
