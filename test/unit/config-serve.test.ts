import test from "ava";
import { loadServeConfig, type ServeConfig } from "../../gpu-agent/src/config/load-serve-config.ts";
import { fileKeyOf, serveOptionList, variableOf } from "../../gpu-agent/src/config/serve-options.ts";

const LOCAL_KEY = "local-key-0123456789";
const SECRET = Buffer.alloc(32, 7).toString("base64url");
const SIGNING_KEYS = JSON.stringify({ "edge-1": SECRET });

interface Given {
  readonly argv?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly files?: Readonly<Record<string, string>>;
}

/** With a local key unless `env` is given. */
const load = ({ argv = [], env = { LOCKGATE_LOCAL_KEY: LOCAL_KEY }, files = {} }: Given) =>
  loadServeConfig({
    argv,
    env,
    readFile: (path) => {
      const text = files[path];
      if (text === undefined) throw Object.assign(new Error("no such file"), { code: "ENOENT" });
      return text;
    },
    builtInModelPath: "/opt/models/tiny-atlas.gguf",
    version: "1.2.3",
  });

const configOf = (given: Given): ServeConfig => {
  const result = load(given);
  if (!result.ok) throw new Error(result.message);
  return result.config;
};

const faultOf = (given: Given) => {
  const result = load(given);
  if (result.ok) throw new Error("the configuration was accepted");
  return result;
};

const withLocalKey = (env: Readonly<Record<string, string>>) => ({ LOCKGATE_LOCAL_KEY: LOCAL_KEY, ...env });

const defaults: ServeConfig = {
  modelPath: "/opt/models/tiny-atlas.gguf",
  modelName: "tiny-atlas",
  host: "127.0.0.1",
  port: 8_788,
  replicas: 1,
  slots: 1,
  contextTokens: undefined,
  threads: undefined,
  devices: [],
  engineCommand: undefined,
  kvType: undefined,
  maxWaitingTurns: 64,
  wireLogDirectory: undefined,
  readyTimeoutMs: 900_000,
  healCooldownMs: 60_000,
  stallTimeoutMs: 30_000,
  writeStallTimeoutMs: 30_000,
  drainTimeoutMs: 30_000,
  edgeUrl: undefined,
  agentId: undefined,
  heartbeatIntervalMs: 5_000,
  spoolDirectory: undefined,
  maxSpooledRecords: 100_000,
  metricsPort: undefined,
  metricsHost: "127.0.0.1",
  readyLineAsJson: false,
  exitWithStdin: false,
  logLevel: "info",
  logPrompts: false,
  signingKeys: new Map(),
  localKey: LOCAL_KEY,
};

/** Every option, set to something else than its default: as text, as the file spells it, and what comes of it. */
const settings: ReadonlyArray<readonly [name: string, text: string, toml: string, becomes: Partial<ServeConfig>]> = [
  ["model", "/m/a.b.gguf", '"/m/a.b.gguf"', { modelPath: "/m/a.b.gguf", modelName: "a.b" }],
  ["model-name", "atlas", '"atlas"', { modelName: "atlas" }],
  ["host", "::1", '"::1"', { host: "::1" }],
  ["port", "0", "0", { port: 0 }],
  ["replicas", "2", "2", { replicas: 2 }],
  ["slots", "4", "4", { slots: 4 }],
  ["context", "1024", "1024", { contextTokens: 1_024 }],
  ["threads", "3", "3", { threads: 3 }],
  ["devices", "CUDA0, CUDA1", '["CUDA0", "CUDA1"]', { devices: ["CUDA0", "CUDA1"] }],
  ["engine-command", '["run", "a b"]', '["run", "a b"]', { engineCommand: ["run", "a b"] }],
  ["kv-type", "q8_0", '"q8_0"', { kvType: "q8_0" }],
  ["queue", "0", "0", { maxWaitingTurns: 0 }],
  ["wire-log", "/logs", '"/logs"', { wireLogDirectory: "/logs" }],
  ["ready-timeout", "1.5", "1.5", { readyTimeoutMs: 1_500 }],
  ["heal-cooldown", "5", "5", { healCooldownMs: 5_000 }],
  ["stall-timeout", "5", "5", { stallTimeoutMs: 5_000 }],
  ["write-stall-timeout", "5", "5", { writeStallTimeoutMs: 5_000 }],
  ["drain-timeout", "6", "6", { drainTimeoutMs: 6_000 }],
  ["edge-url", "https://edge.example/a", '"https://edge.example/a"', { edgeUrl: "https://edge.example/a" }],
  ["agent-id", "gpu-7", '"gpu-7"', { agentId: "gpu-7" }],
  ["heartbeat-interval", "0.5", "0.5", { heartbeatIntervalMs: 500 }],
  ["spool", "/spool", '"/spool"', { spoolDirectory: "/spool" }],
  ["spool-max", "10", "10", { maxSpooledRecords: 10 }],
  ["metrics-port", "9090", "9090", { metricsPort: 9_090 }],
  ["metrics-host", "0.0.0.0", '"0.0.0.0"', { metricsHost: "0.0.0.0" }],
  ["json", "true", "true", { readyLineAsJson: true }],
  ["exit-with-stdin", "1", "true", { exitWithStdin: true }],
  ["log-level", "debug", '"debug"', { logLevel: "debug" }],
  ["log-prompts", "true", "true", { logPrompts: true }],
];

const flagWords = (name: string, text: string): string[] =>
  name === "json" || name === "exit-with-stdin" || name === "log-prompts" ? [`--${name}`] : [`--${name}`, text];

test("with a key and nothing else, the documented defaults hold", (t) => {
  t.deepEqual(configOf({}), defaults);
  t.deepEqual(configOf({ argv: ["serve"] }), defaults);
});

test("the settings below cover the whole table", (t) => {
  t.deepEqual(
    settings.map(([name]) => name),
    serveOptionList.map(({ name }) => name),
  );
});

for (const [name, text, toml, becomes] of settings) {
  test(`${name} means the same as flag, variable and key of the file`, (t) => {
    const expected = { ...defaults, ...becomes };
    t.deepEqual(configOf({ argv: flagWords(name, text) }), expected);
    t.deepEqual(configOf({ env: withLocalKey({ [variableOf(name)]: text }) }), expected);
    const files = { "a.toml": `${fileKeyOf(name)} = ${toml}\n` };
    t.deepEqual(configOf({ argv: ["--config", "a.toml"], files }), expected);
    t.deepEqual(configOf({ env: withLocalKey({ LOCKGATE_CONFIG: "a.toml" }), files }), expected);
  });
}

test("a flag beats the environment, which beats the file", (t) => {
  const files = { "a.toml": "port = 1\nslots = 2\n", "b.toml": "port = 3\n" };
  const env = withLocalKey({ LOCKGATE_CONFIG: "a.toml", LOCKGATE_PORT: "2" });
  t.is(configOf({ env, files }).port, 2);
  t.is(configOf({ env, files }).slots, 2);
  t.is(configOf({ argv: ["--port", "4"], env, files }).port, 4);
  t.is(configOf({ argv: ["--config", "b.toml"], env: withLocalKey({ LOCKGATE_CONFIG: "a.toml" }), files }).port, 3);
});

test("a switch that the environment sets can be unset by a flag", (t) => {
  const env = withLocalKey({ LOCKGATE_JSON: "1", LOCKGATE_EXIT_WITH_STDIN: "true" });
  const config = configOf({ argv: ["--no-json"], env });
  t.false(config.readyLineAsJson);
  t.true(config.exitWithStdin);
  t.false(configOf({ env: withLocalKey({ LOCKGATE_JSON: "0" }) }).readyLineAsJson);
});

test("an empty variable counts as not set", (t) => {
  t.is(
    configOf({ env: withLocalKey({ LOCKGATE_PORT: "", LOCKGATE_CONFIG: "", LOCKGATE_SIGNING_KEYS: "" }) }).port,
    8_788,
  );
});

const badValues: ReadonlyArray<readonly [given: Given, exitCode: number, message: string]> = [
  [{ argv: ["--port", "65536"] }, 64, "--port is 65536; it must be a whole number from 0 to 65535"],
  [{ argv: ["--port", "1e3"] }, 64, '--port is "1e3"; it must be a whole number from 0 to 65535'],
  [{ argv: ["--port="] }, 64, '--port is ""; it must be a whole number from 0 to 65535'],
  [{ argv: ["--kv-type", "f8"] }, 64, '--kv-type is "f8"; it must be one of f32, f16, bf16, q8_0, q4_0'],
  [{ argv: ["--devices", "CUDA0,,CUDA1"] }, 64, "--devices is"],
  [
    { argv: ["--edge-url", "edge.example"] },
    64,
    '--edge-url is "edge.example"; it must be an http or https URL without',
  ],
  [{ argv: ["--edge-url", "https://me@edge.example"] }, 64, '--edge-url is "https://me@'],
  [{ argv: ["--edge-url", "https://edge.example?a=1"] }, 64, '--edge-url is "https://edge'],
  [{ argv: ["--model="] }, 64, '--model is ""; it must be text that is not empty'],
  [{ env: withLocalKey({ LOCKGATE_SLOTS: "65" }) }, 78, "LOCKGATE_SLOTS is 65; it must be a whole number from 1 to 64"],
  [{ env: withLocalKey({ LOCKGATE_JSON: "yes" }) }, 78, 'LOCKGATE_JSON is "yes"; it must be true or false'],
  [
    { env: withLocalKey({ LOCKGATE_DRAIN_TIMEOUT: "0" }) },
    78,
    "LOCKGATE_DRAIN_TIMEOUT is 0; it must be a number of seconds above 0",
  ],
];

for (const [given, exitCode, message] of badValues) {
  test(`refused: ${message}`, (t) => {
    const fault = faultOf(given);
    t.is<number, number>(fault.exitCode, exitCode);
    t.true(fault.message.startsWith(message), fault.message);
  });
}

const badFiles: ReadonlyArray<readonly [toml: string, message: string]> = [
  ['port = "8788"', 'a.toml: port is "8788"; it must be a whole number from 0 to 65535'],
  ["devices = []", "a.toml: devices is []; it must be a list of 1 to 64 names"],
  ["port = 99999999999999999999", "a.toml is not valid TOML (line 1, column 8)"],
  ["host = 1979-05-27", "a.toml: host is"],
  ['engine.command = "run it"', 'a.toml: engine.command is "run it"; it must be an array of 1 to 64 words'],
  ['[engine]\ncomand = ["run"]', "a.toml: unknown key engine.comand; the known ones are model,"],
  ['engine = "run"', "a.toml: unknown key engine; the known ones are model,"],
  ['slots = 2\nengine.command = ["run"]', "slots is 2; with engine.command it must be 1"],
  ['kv_type = "f16"\nengine.command = ["run"]', "kv-type is f16, which engine.command cannot be told"],
  ['engine.command = ["run", "{devices}"]', "engine.command names {devices}, but there are none"],
  ["prot = 1", "a.toml: unknown key prot; the known ones are model, model_name,"],
  [
    "[auth]\nlocal_key = 's3cret'",
    "a.toml: unknown key auth.local_key; [auth] takes signing_keys_file and local_key_file, paths of files",
  ],
  ["[auth]\nlocal_key_file = 5", "a.toml: auth.local_key_file must be the path of a file"],
  ["auth = 's3cret'", "a.toml: auth must be the path of a file"],
  ["slots = = 's3cret'", "a.toml is not valid TOML (line 1, column 9)"],
];

for (const [toml, message] of badFiles) {
  test(`refused: ${message}`, (t) => {
    const fault = faultOf({ argv: ["--config", "a.toml"], files: { "a.toml": toml } });
    t.is(fault.exitCode, 78);
    t.true(fault.message.startsWith(message), fault.message);
    t.false(fault.message.includes("s3cret"));
  });
}

test("a file that is not there is a missing input", (t) => {
  const missing = faultOf({ argv: ["--config", "gone.toml"] });
  t.is(missing.exitCode, 66);
  t.regex(missing.message, /gone\.toml cannot be read \(ENOENT\)/);
  const keys = faultOf({
    argv: ["--config", "a.toml"],
    files: { "a.toml": '[auth]\nsigning_keys_file = "gone.json"\n' },
  });
  t.is(keys.exitCode, 66);
  t.regex(keys.message, /auth\.signing_keys_file gone\.json cannot be read/);
});

test("without any key there is no open mode, and the error says how to set one", (t) => {
  const fault = faultOf({ env: {} });
  t.is(fault.exitCode, 78);
  for (const way of ["LOCKGATE_LOCAL_KEY", "LOCKGATE_SIGNING_KEYS", "signing_keys_file", "local_key_file"]) {
    t.true(fault.message.includes(way), way);
  }
});

test("keys come from the environment or from files, and the environment wins", (t) => {
  const files = {
    "a.toml": '[auth]\nsigning_keys_file = "s.json"\nlocal_key_file = "l.txt"\n',
    "s.json": SIGNING_KEYS,
    "l.txt": "key-from-the-file-01\n",
  };
  const fromFiles = configOf({ argv: ["--config", "a.toml"], env: {}, files });
  t.is(fromFiles.localKey, "key-from-the-file-01");
  t.deepEqual([...fromFiles.signingKeys], [["edge-1", new Uint8Array(32).fill(7)]]);
  const env = { LOCKGATE_LOCAL_KEY: LOCAL_KEY, LOCKGATE_SIGNING_KEYS: JSON.stringify({ "edge-2": SECRET }) };
  const fromEnv = configOf({ argv: ["--config", "a.toml"], env, files });
  t.is(fromEnv.localKey, LOCAL_KEY);
  t.deepEqual([...fromEnv.signingKeys.keys()], ["edge-2"]);
});

test("signing keys alone are enough, and then no local key is let in", (t) => {
  const config = configOf({ env: { LOCKGATE_SIGNING_KEYS: SIGNING_KEYS } });
  t.is(config.localKey, undefined);
  t.is(config.signingKeys.size, 1);
});

const unusableSecrets: ReadonlyArray<readonly [variable: string, value: string]> = [
  ["LOCKGATE_SIGNING_KEYS", "s3cret"],
  ["LOCKGATE_SIGNING_KEYS", "{}"],
  ["LOCKGATE_SIGNING_KEYS", '{"edge-1":"s3cret"}'],
  ["LOCKGATE_LOCAL_KEY", "s3cret"],
  ["LOCKGATE_LOCAL_KEY", "s3cret with spaces in it"],
  ["LOCKGATE_LOCAL_KEY", `s3cret${"x".repeat(256)}`],
];

for (const [variable, value] of unusableSecrets) {
  test(`${variable} of ${value.length} characters, ${value.slice(0, 12)}…, is refused without being shown`, (t) => {
    const fault = faultOf({ env: { [variable]: value } });
    t.is(fault.exitCode, 78);
    t.true(fault.message.startsWith(`${variable} holds no usable`), fault.message);
    t.false(fault.message.includes("s3cret"));
  });
}

test("of several wrong values one is told, and it stays the same one", (t) => {
  const fault = faultOf({ argv: ["--slots", "0", "--port", "x"] });
  t.true(fault.message.startsWith("--port is"), fault.message);
  t.is(fault.message, faultOf({ argv: ["--port", "x", "--slots", "0"] }).message);
});

test("a long wrong value is cut in the message", (t) => {
  const { message } = faultOf({ argv: ["--port", "9".repeat(81).concat("x")] });
  t.regex(message, /^--port is "9{79}…; it must be/);
});

test("no flag takes a secret", (t) => {
  for (const flag of ["--local-key", "--signing-keys", "--auth", "--key"]) {
    t.is(faultOf({ argv: [flag, LOCAL_KEY] }).exitCode, 64);
  }
});

test("a wrong command line is a usage error that names the word", (t) => {
  for (const argv of [["--prot", "1"], ["serve", "now"], ["--port"], ["--json=1"]]) {
    const fault = faultOf({ argv });
    t.is(fault.exitCode, 64);
    t.regex(fault.message, /^error: /);
  }
});
