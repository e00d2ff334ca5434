/** Every example that --help or the agent's README shows is run, as it stands there. */
import { randomBytes } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import test from "ava";
import { runAgentCommand } from "../helpers/agent-command.ts";
import { type AgentUnderTest, startAgentUnderTest } from "../helpers/agent-process.ts";
import {
  type ExampleFolder,
  helpCommands,
  helpExamples,
  makeExampleFolder,
  markdownExamples,
} from "../helpers/shell-examples.ts";

const model = fileURLToPath(new URL("../../gpu-agent/models/tiny-atlas-3m-q8_0.gguf", import.meta.url));
const readme = readFileSync(new URL("../../gpu-agent/README.md", import.meta.url), "utf8");

/** Where examples say that an agent is; no test has that port for itself. */
const SHOWN_URL = "http://127.0.0.1:8788";
const signingKeys = JSON.stringify({ "edge-1": randomBytes(32).toString("base64url") });

/** Commands that a supervisor's or a container's tools run; what they do with our files other tests look at. */
const NOT_RUN = /^(npm (install|pack)|docker |useradd |install |runuser |systemctl |node \/opt\/)/;

/** Some twenty processes one after the other, the replay and the benchmark among them. */
const EXAMPLES_LIMIT_MS = 300_000;

let agent: AgentUnderTest;
test.before(async () => {
  agent = await startAgentUnderTest(["--log-level", "error"]);
});
test.after.always(async () => {
  await agent?.stop();
});

const exampleFolder = (): ExampleFolder =>
  makeExampleFolder(model, {
    LOCKGATE_LOCAL_KEY: agent.localKey,
    LOCKGATE_STATUS_URL: agent.url,
    LOCKGATE_PORT: "0",
    LOCKGATE_LOG_LEVEL: "error",
  });

const helpOf = async (path: readonly string[]): Promise<string> => {
  const { code, stdout } = await runAgentCommand([...path, "--help"]);
  if (code !== 0) throw new Error(`${path.join(" ")} --help ended with ${code}`);
  return stdout;
};

/** The program and all its commands, by their words. */
const allCommands = async (path: readonly string[] = []): Promise<(readonly string[])[]> => {
  const inner = await Promise.all(helpCommands(await helpOf(path)).map((name) => allCommands([...path, name])));
  return [path, ...inner.flat()];
};

test.serial("each example of each --help ends well", async (t) => {
  t.timeout(EXAMPLES_LIMIT_MS);
  const commands = await allCommands();
  t.true(commands.length >= 15, commands.map((path) => path.join(" ")).join(", "));
  const seen = new Set<string>();
  for (const path of commands) {
    const examples = helpExamples(await helpOf(path)).filter((line) => !seen.has(line));
    const folder = exampleFolder();
    // What the examples of serve find in their folder; those of keys make the file themselves.
    if (path[0] !== "keys") writeFileSync(join(folder.path, "signing-keys.json"), signingKeys);
    writeFileSync(join(folder.path, "agent.toml"), '[auth]\nsigning_keys_file = "signing-keys.json"\n');
    for (const line of examples) {
      seen.add(line);
      const { code, stderr } = await folder.run(line.replace(SHOWN_URL, agent.url));
      t.is(code, 0, `${line}\n${stderr}`);
    }
    folder.remove();
  }
  for (const command of ["serve", "doctor", "models", "keys", "status", "config", "replay", "bench"]) {
    t.true(
      [...seen].some((line) => line.includes(`gpu-agent ${command}`)),
      command,
    );
  }
});

test.serial(
  "each shell line of the README that is ours ends well, and the others are commands of the system",
  async (t) => {
    let ran = 0;
    for (const block of markdownExamples(readme)) {
      const folder = exampleFolder();
      for (const line of block.filter((one) => !NOT_RUN.test(one))) {
        const { code, stderr } = await folder.run(line.replace(SHOWN_URL, agent.url));
        t.is(code, 0, `${line}\n${stderr}`);
        ran += 1;
      }
      folder.remove();
    }
    t.true(ran >= 7, String(ran));
  },
);
