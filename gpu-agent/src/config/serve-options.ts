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

export const text = <T extends string | undefined>(
  option: Common<T | string> & { argument: string },
): ServeOption<T | string> => ({
  ...option,
  schema: z.string().min(1).max(MAX_TEXT_CHARS),
  fromText: (value) => value,
  expected: "text that is not empty",
  fallbackText: fallbackTextOf(option),
});

export const MAX_URL_CHARS = 2_048;

/** An http(s) URL without user, query or fragment: secrets do not belong in it, and paths are added to it. */
export const url = <T extends string | undefined>(option: Common<T | string>): ServeOption<T | string> => ({
  ...option,
  argument: "URL",
  schema: z
    .string()
    .max(MAX_URL_CHARS)
    .refine((value) => /^https?:\/\/[^/?#@]+(\/[^?#@]*)?$/.test(value) && URL.canParse(value)),
  fromText: (value) => value,
  expected: "an http or https URL without user, query or fragment",
  fallbackText: fallbackTextOf(option),
});

export const integer = <T extends number | undefined>(
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

export const choice = <const C extends string, T extends C | undefined>(
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

/** The words of a command: a JSON array where only text fits, an array in the file. */
const words = (option: Common<readonly string[] | undefined>): ServeOption<readonly string[] | undefined> => ({
  ...option,
  argument: "JSON",
  schema: z.array(z.string().min(1).max(MAX_TEXT_CHARS)).min(1).max(MAX_LIST_ITEMS),
  fromText: (value) => {
    try {
      return JSON.parse(value);
    } catch {
      return value;
    }
  },
  expected: `an array of 1 to ${MAX_LIST_ITEMS} words, e.g. ["python3", "engine.py"]`,
  fallbackText: fallbackTextOf(option),
});

export const toggle = (option: Common<boolean>): ServeOption<boolean> => ({
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
  engineCommand: words({
    name: "engine-command",
    help: "run this for each replica instead of the built-in engine; {replica}, {devices}, {cores}, {model} are filled in",
    fallback: undefined,
    fallbackText: "the built-in engine",
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
    help: "turns that may wait for the model",
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
  stallTimeout: seconds({
    name: "stall-timeout",
    help: "time without output and CPU use after which a replica that runs a turn is killed",
    high: 3_600,
    fallback: 30,
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
  edgeUrl: url({
    name: "edge-url",
    help: "the edge that takes this agent's heartbeats and usage records",
    fallback: undefined,
    fallbackText: "none",
  }),
  agentId: text<undefined>({
    name: "agent-id",
    argument: "NAME",
    help: "what the edge calls this agent",
    fallback: undefined,
    fallbackText: "the machine's name",
  }),
  heartbeatInterval: seconds({
    name: "heartbeat-interval",
    help: "pause between two heartbeats to the edge",
    high: 3_600,
    fallback: 5,
  }),
  spool: text<undefined>({
    name: "spool",
    argument: "DIR",
    help: "keep usage records here until the edge has them",
    fallback: undefined,
    fallbackText: "off",
  }),
  spoolMax: integer<number>({
    name: "spool-max",
    help: "usage records that may wait for the edge; then new turns are refused",
    low: 1,
    high: 10_000_000,
    fallback: 100_000,
  }),
  metricsPort: integer<undefined>({
    name: "metrics-port",
    help: "serve /metrics on this port too, to anyone who reaches it; 0 takes a free one",
    low: 0,
    high: 65_535,
    fallback: undefined,
    fallbackText: "off",
  }),
  metricsHost: text<string>({
    name: "metrics-host",
    argument: "ADDRESS",
    help: "the address for --metrics-port",
    fallback: "127.0.0.1",
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
  logPrompts: toggle({ name: "log-prompts", help: "log what people ask and what is answered", fallback: false }),
} as const;

/** The entries, in the order of --help. */
export const serveOptionList: readonly ServeOption<unknown>[] = Object.values(serveOptions);

/** `wire-log` as LOCKGATE_WIRE_LOG. */
export const variableOf = (name: string): string => `LOCKGATE_${name.toUpperCase().replaceAll("-", "_")}`;

/** Options `engine-…` stand in this table of the file. */
export const ENGINE_TABLE = "engine";

/** `wire-log` as wire_log, `engine-command` as engine.command. */
export const fileKeyOf = (name: string): string => {
  const key = name.replaceAll("-", "_");
  return key.startsWith(`${ENGINE_TABLE}_`) ? key.replace("_", ".") : key;
};
