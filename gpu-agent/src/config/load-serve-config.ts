/**
 * Makes the configuration of `serve` out of flags, environment and TOML file; a flag beats the environment, which beats the file.
 *
 * Pure but for the `readFile` that is passed in. Every fault names where the value came from, the value, and what would be right.
 * An empty variable counts as not set. Deliberately absent: whether the model and the devices exist (the engine says so), and
 * variables that nobody asks for (others of the same prefix belong to other programs).
 */
import { CommanderError } from "commander";
import { parse as parseToml, TomlError } from "smol-toml";
import { z } from "zod";
import { addServeCommand, CONFIG_FLAG, createProgram, parseExitCode, type ServeFlags } from "./command-line.ts";
import { faultBesideEngineCommand } from "./engine-command.ts";
import { exitCodes } from "./exit-codes.ts";
import { type ConfigFault, configFault } from "./outcome.ts";
import { type AuthFiles, readInput, readSecrets, type Secrets } from "./secrets.ts";
import {
  ENGINE_TABLE,
  fileKeyOf,
  type ServeOption,
  serveOptionList,
  serveOptions,
  variableOf,
} from "./serve-options.ts";

export interface ServeConfig {
  readonly modelPath: string;
  /** The name that clients ask for. */
  readonly modelName: string;
  readonly host: string;
  /** 0 takes a free port. */
  readonly port: number;
  readonly replicas: number;
  /** Turns that one replica decodes together. */
  readonly slots: number;
  /** Tokens of one slot; undefined: the model's trained context. */
  readonly contextTokens: number | undefined;
  /** CPU threads of each replica; undefined: to be decided from the model and the free cores. */
  readonly threads: number | undefined;
  /** Empty: every GPU, else the CPU. */
  readonly devices: readonly string[];
  /** Words that start another engine for each replica; undefined: our replica host. */
  readonly engineCommand: readonly string[] | undefined;
  readonly kvType: "f32" | "f16" | "bf16" | "q8_0" | "q4_0" | undefined;
  /** Turns that may wait for the model. */
  readonly maxWaitingTurns: number;
  readonly wireLogDirectory: string | undefined;
  readonly readyTimeoutMs: number;
  readonly healCooldownMs: number;
  readonly stallTimeoutMs: number;
  readonly writeStallTimeoutMs: number;
  readonly drainTimeoutMs: number;
  readonly edgeUrl: string | undefined;
  /** Undefined: the machine's name. */
  readonly agentId: string | undefined;
  readonly heartbeatIntervalMs: number;
  /** Usage records wait here; undefined: none are kept. */
  readonly spoolDirectory: string | undefined;
  readonly maxSpooledRecords: number;
  /** Undefined: /metrics is on the agent's own port alone. */
  readonly metricsPort: number | undefined;
  readonly metricsHost: string;
  readonly readyLineAsJson: boolean;
  readonly exitWithStdin: boolean;
  readonly logLevel: "debug" | "info" | "warn" | "error";
  readonly logPrompts: boolean;
  /** Key id to raw secret; may be empty, but then there is a local key. */
  readonly signingKeys: Secrets["signingKeys"];
  readonly localKey: Secrets["localKey"];
}

/** What the configuration is made from. */
export interface ServeSources {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Reads a UTF-8 file; throws where it cannot. */
  readonly readFile: (path: string) => string;
  readonly builtInModelPath: string;
}

export type ServeConfigResult = { readonly ok: true; readonly config: ServeConfig } | ConfigFault;

export interface ConfigFile {
  readonly ok: true;
  readonly path: string;
  readonly values: Readonly<Record<string, unknown>>;
  readonly auth: AuthFiles;
}

const AUTH_TABLE = "auth";
const authSchema = z.strictObject({
  signing_keys_file: z.string().min(1).optional(),
  local_key_file: z.string().min(1).optional(),
});
export const noFile: ConfigFile = {
  ok: true,
  path: "",
  values: {},
  auth: { signingKeysFile: undefined, localKeyFile: undefined },
};

/** Longest value that a message repeats, characters. */
const MAX_SHOWN_CHARS = 80;

const shown = (value: unknown): string => {
  const json = typeof value === "bigint" ? String(value) : (JSON.stringify(value) ?? String(value));
  return json.length > MAX_SHOWN_CHARS ? `${json.slice(0, MAX_SHOWN_CHARS)}…` : json;
};

const readAuth = (path: string, table: unknown): AuthFiles | ConfigFault => {
  const parsed = authSchema.safeParse(table ?? {});
  if (parsed.success) {
    return { signingKeysFile: parsed.data.signing_keys_file, localKeyFile: parsed.data.local_key_file };
  }
  const issue = parsed.error.issues[0];
  // Values are left out: somebody may have put a secret where its file belongs.
  return issue?.code === "unrecognized_keys"
    ? configFault(
        exitCodes.config,
        `${path}: unknown key ${AUTH_TABLE}.${issue.keys[0]}; [auth] takes ${Object.keys(authSchema.shape).join(" and ")}, paths of files`,
      )
    : configFault(
        exitCodes.config,
        `${path}: ${[AUTH_TABLE, ...(issue?.path ?? [])].join(".")} must be the path of a file`,
      );
};

/** The same values with the keys of one table beside the others, as `table.key`. */
const withoutTable = (values: Readonly<Record<string, unknown>>, table: string): Record<string, unknown> => {
  const { [table]: held, ...others } = values;
  if (typeof held !== "object" || held === null || Array.isArray(held)) return { ...values };
  return { ...others, ...Object.fromEntries(Object.entries(held).map(([key, value]) => [`${table}.${key}`, value])) };
};

const readConfigFile = (path: string, readFile: ServeSources["readFile"]): ConfigFile | ConfigFault => {
  const file = readInput(readFile, path, "the configuration file");
  if (!file.ok) return file;
  let values: Record<string, unknown>;
  try {
    values = withoutTable(parseToml(file.text), ENGINE_TABLE);
  } catch (error) {
    // The parser's own message quotes lines of the file, which may hold a secret.
    const place = error instanceof TomlError ? ` (line ${error.line}, column ${error.column})` : "";
    return configFault(exitCodes.config, `${path} is not valid TOML${place}`);
  }
  const known = [...serveOptionList.map(({ name }) => fileKeyOf(name)), AUTH_TABLE];
  const unknown = Object.keys(values).find((key) => !known.includes(key));
  if (unknown !== undefined) {
    return configFault(exitCodes.config, `${path}: unknown key ${unknown}; the known ones are ${known.join(", ")}`);
  }
  const auth = readAuth(path, values[AUTH_TABLE]);
  return "ok" in auth ? auth : { ok: true, path, values, auth };
};

/** A value as it was found, and where. */
interface Found {
  readonly value: unknown;
  readonly source: string;
  readonly exitCode: typeof exitCodes.usage | typeof exitCodes.config;
}

const find = (
  option: ServeOption<unknown>,
  flags: ServeFlags,
  env: ServeSources["env"],
  file: ConfigFile,
  variableName: string,
): Found | null => {
  const fromText = (value: string | boolean): unknown => (typeof value === "string" ? option.fromText(value) : value);
  const flag = flags.get(option.name);
  if (flag !== undefined) return { value: fromText(flag), source: `--${option.name}`, exitCode: exitCodes.usage };
  const variable = env[variableName];
  if (variable !== undefined && variable !== "") {
    return { value: fromText(variable), source: variableName, exitCode: exitCodes.config };
  }
  const key = fileKeyOf(option.name);
  return Object.hasOwn(file.values, key)
    ? { value: file.values[key], source: `${file.path}: ${key}`, exitCode: exitCodes.config }
    : null;
};

/** One option's value: from its flag, else its variable, else the file, else its fallback. A bad one is a fault that names its source. */
export const takeOption = <T>(
  option: ServeOption<T>,
  flags: ServeFlags,
  env: ServeSources["env"],
  file: ConfigFile,
  variableName: string,
): { readonly ok: true; readonly value: T } | ConfigFault => {
  const found = find(option, flags, env, file, variableName);
  if (found === null) return { ok: true, value: option.fallback };
  const parsed = option.schema.safeParse(found.value);
  return parsed.success
    ? { ok: true, value: parsed.data }
    : configFault(found.exitCode, `${found.source} is ${shown(found.value)}; it must be ${option.expected}`);
};

/** The configuration for flags that were split already (by the `serve` command's action). */
export const resolveServeConfig = (flags: ServeFlags, sources: ServeSources): ServeConfigResult => {
  const { env, readFile } = sources;
  const flagPath = flags.get(CONFIG_FLAG);
  const path = typeof flagPath === "string" ? flagPath : env[variableOf(CONFIG_FLAG)];
  const file = path === undefined || path === "" ? noFile : readConfigFile(path, readFile);
  if (!file.ok) return file;

  let fault: ConfigFault | undefined;
  const take = <T>(option: ServeOption<T>): T => {
    const taken = takeOption(option, flags, env, file, variableOf(option.name));
    if (taken.ok) return taken.value;
    fault ??= taken;
    return option.fallback;
  };

  const modelPath = take(serveOptions.model) ?? sources.builtInModelPath;
  const values = {
    modelPath,
    modelName: take(serveOptions.modelName) ?? modelNameOf(modelPath),
    host: take(serveOptions.host),
    port: take(serveOptions.port),
    replicas: take(serveOptions.replicas),
    slots: take(serveOptions.slots),
    contextTokens: take(serveOptions.context),
    threads: take(serveOptions.threads),
    devices: take(serveOptions.devices),
    engineCommand: take(serveOptions.engineCommand),
    kvType: take(serveOptions.kvType),
    maxWaitingTurns: take(serveOptions.queue),
    wireLogDirectory: take(serveOptions.wireLog),
    readyTimeoutMs: take(serveOptions.readyTimeout) * 1_000,
    healCooldownMs: take(serveOptions.healCooldown) * 1_000,
    stallTimeoutMs: take(serveOptions.stallTimeout) * 1_000,
    writeStallTimeoutMs: take(serveOptions.writeStallTimeout) * 1_000,
    drainTimeoutMs: take(serveOptions.drainTimeout) * 1_000,
    edgeUrl: take(serveOptions.edgeUrl),
    agentId: take(serveOptions.agentId),
    heartbeatIntervalMs: take(serveOptions.heartbeatInterval) * 1_000,
    spoolDirectory: take(serveOptions.spool),
    maxSpooledRecords: take(serveOptions.spoolMax),
    metricsPort: take(serveOptions.metricsPort),
    metricsHost: take(serveOptions.metricsHost),
    readyLineAsJson: take(serveOptions.json),
    exitWithStdin: take(serveOptions.exitWithStdin),
    logLevel: take(serveOptions.logLevel),
    logPrompts: take(serveOptions.logPrompts),
  };
  fault ??= faultBesideEngineCommand(values);
  if (fault !== undefined) return fault;
  const secrets = readSecrets(env, file.auth, readFile);
  if (!secrets.ok) return secrets;
  return { ok: true, config: { ...values, signingKeys: secrets.signingKeys, localKey: secrets.localKey } };
};

/** `/models/atlas.gguf` as `atlas`. */
const modelNameOf = (path: string): string => (path.split(/[/\\]/).at(-1) ?? path).replace(/\.gguf$/i, "");

/**
 * The configuration for the words after the program's name (`serve --port 0`; the word `serve` may be left out).
 *
 * Not ok with exit code 0 means that --help or --version was asked for, and `message` is its text for standard output.
 */
export const loadServeConfig = (
  sources: ServeSources & { readonly argv: readonly string[]; readonly version: string },
): ServeConfigResult => {
  let written = "";
  const write = (text: string): void => {
    written += text;
  };
  const program = createProgram({ version: sources.version, writeOut: write, writeError: write });
  let result: ServeConfigResult | undefined;
  addServeCommand(program, (flags) => {
    result = resolveServeConfig(flags, sources);
  });
  try {
    program.parse([...sources.argv], { from: "user" });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    return configFault(parseExitCode(error), written.trimEnd());
  }
  return result ?? configFault(exitCodes.software, "no command ran");
};
