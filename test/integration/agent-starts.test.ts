/** Starts that cannot succeed: one clear line on stderr, the documented exit code, nothing left running. */
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import test from "ava";
import { agentEntry } from "../helpers/agent-process.ts";
import { startScript } from "../helpers/processes.ts";

const directory = mkdtempSync(join(tmpdir(), "lockgate-starts-"));
test.after.always(() => rmSync(directory, { recursive: true, force: true }));

const model = fileURLToPath(new URL("../../gpu-agent/models/tiny-atlas-3m-q8_0.gguf", import.meta.url));

/** A file of this content in the test's folder. */
const file = (name: string, content: string | Uint8Array): string => {
  const path = join(directory, name);
  writeFileSync(path, content);
  return path;
};

const withKey = { ...process.env, LOCKGATE_LOCAL_KEY: "a-local-key-of-a-test" };
const withoutKey = { ...process.env, LOCKGATE_LOCAL_KEY: "", LOCKGATE_SIGNING_KEYS: "" };

/** Processes whose parent was this one; the test's own children of other tests are not among them. */
const childrenOf = (pid: number): string => {
  try {
    return execFileSync("ps", ["-o", "pid=", "--ppid", String(pid)], { encoding: "utf8" }).trim();
  } catch {
    return "";
  }
};

interface BadStart {
  readonly what: string;
  readonly words: readonly string[] | (() => readonly string[]);
  readonly env?: NodeJS.ProcessEnv;
  readonly exitCode: number;
  /** What the one line must name: what is wrong and what would be right. */
  readonly says: RegExp;
}

const badStarts: readonly BadStart[] = [
  {
    what: "a model file that is not there",
    words: ["--model", "/no/such/model.gguf"],
    exitCode: 66,
    says: /\/no\/such\/model\.gguf/,
  },
  {
    what: "a file that is no GGUF",
    words: () => ["--model", file("text.gguf", "this is no model\n")],
    exitCode: 65,
    says: /text\.gguf/,
  },
  {
    what: "a truncated GGUF",
    words: () => ["--model", file("cut.gguf", readFileSync(model).subarray(0, 1_500_000))],
    exitCode: 65,
    says: /cut\.gguf/,
  },
  { what: "an empty file", words: () => ["--model", file("empty.gguf", "")], exitCode: 65, says: /empty\.gguf/ },
  { what: "a device that is not there", words: ["--devices", "CUDA7"], exitCode: 69, says: /CUDA7.*CPU/ },
  {
    what: "a device named twice",
    words: ["--replicas", "2", "--devices", "CPU,CPU"],
    exitCode: 64,
    says: /CPU is named twice/,
  },
  { what: "an unknown flag", words: ["--sauce", "hot"], exitCode: 64, says: /unknown option '--sauce'/ },
  {
    what: "a flag with a bad value",
    words: ["--replicas", "many"],
    exitCode: 64,
    says: /--replicas.*many.*whole number from 1 to 16/,
  },
  { what: "a port out of range", words: ["--port", "70000"], exitCode: 64, says: /--port.*70000.*0 to 65535/ },
  {
    what: "a configuration file that is not there",
    words: ["--config", "/no/such/agent.toml"],
    exitCode: 66,
    says: /\/no\/such\/agent\.toml/,
  },
  {
    what: "a configuration that is not TOML",
    words: () => ["--config", file("broken.toml", "port = = 1\n")],
    exitCode: 78,
    says: /broken\.toml/,
  },
  {
    what: "an unknown key in the configuration",
    words: () => ["--config", file("key.toml", "prot = 1\n")],
    exitCode: 78,
    says: /prot/,
  },
  { what: "no key at all", words: [], env: withoutKey, exitCode: 78, says: /LOCKGATE_LOCAL_KEY/ },
  {
    what: "a context that the model does not have room for",
    words: ["--context", "9999999"],
    exitCode: 64,
    says: /contextTokens|context/,
  },
  { what: "a host that is not ours", words: ["--host", "192.0.2.1"], exitCode: 69, says: /192\.0\.2\.1/ },
];

for (const { what, words, env = withKey, exitCode, says } of badStarts) {
  test.serial(`${what}: exit ${exitCode} and one line that says so`, async (t) => {
    const given = typeof words === "function" ? words() : words;
    const portless = given.includes("--port") ? given : [...given, "--port", "0"];
    const started = startScript(agentEntry, ["serve", "--log-level", "error", ...portless], env);
    t.is(await started.exited, exitCode);
    const lines = (await started.stderr).trim().split("\n");
    t.is(lines.length, 1, lines.join("\n"));
    t.regex(lines[0] ?? "", says);
    t.is(childrenOf(started.child.pid ?? 0), "");
  });
}

test.serial("a port that is taken: exit 69 and one line that names the port and the flag", async (t) => {
  const holder = createServer().listen(0, "127.0.0.1");
  await once(holder, "listening");
  const { port } = holder.address() as AddressInfo;
  try {
    const started = startScript(agentEntry, ["serve", "--log-level", "error", "--port", String(port)], withKey);
    t.is(await started.exited, 69);
    t.regex((await started.stderr).trim(), new RegExp(`^gpu-agent: port ${port} is taken.*--port[^\n]*$`));
  } finally {
    holder.close();
  }
});

test.serial("--help and --version print to stdout and end with 0", async (t) => {
  for (const [flag, says] of [
    ["--help", /serve/],
    ["--version", /^\d+\.\d+\.\d+$/],
  ] as const) {
    const started = startScript(agentEntry, [flag]);
    t.regex(await started.firstLine.then((line) => (flag === "--help" ? "serve" : line)), says);
    t.is(await started.exited, 0);
    t.is(await started.stderr, "");
  }
});
