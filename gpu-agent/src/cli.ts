/** The `gpu-agent` command: picks the sub-command, builds a missing addon first, and is the only place that ends the process. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { addBenchCommand } from "./cli/bench.ts";
import { addConfigCommand } from "./cli/config-schema.ts";
import type { CliContext } from "./cli/context.ts";
import { addDoctorCommand } from "./cli/doctor.ts";
import { exitCodeHelp } from "./cli/exit-code-help.ts";
import { addKeysCommand } from "./cli/keys.ts";
import { addModelsCommand } from "./cli/models.ts";
import { addReplayCommand, addScriptedEngineCommand } from "./cli/ownership.ts";
import { addStatusCommand } from "./cli/status.ts";
import { addServeCommand, createProgram, runProgram } from "./config/command-line.ts";
import { resolveServeConfig } from "./config/load-serve-config.ts";
import { addReplicaHostCommand } from "./host/host-command.ts";
import { ensureAddon } from "./models/ensure-addon.ts";

const packageRoot = new URL("../", import.meta.url);
const { version } = JSON.parse(readFileSync(new URL("package.json", packageRoot), "utf8")) as { version: string };
const builtInModelPath = fileURLToPath(new URL("models/tiny-atlas-3m-q8_0.gguf", packageRoot));

// A terminal or a pipe that is gone takes no words any more; that is no reason for turns to end.
for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});
const writeOut = (text: string) => void process.stdout.write(text);
const writeError = (text: string) => void process.stderr.write(text);

const main = async (words: readonly string[]): Promise<number> => {
  let exitCode = 0;
  const program = createProgram({ version, writeOut, writeError }).addHelpText("afterAll", exitCodeHelp());
  const context: CliContext = {
    env: process.env,
    writeOut,
    writeError,
    endWith: (code) => {
      exitCode = code;
    },
    packageRoot,
    builtInModelPath,
  };

  addServeCommand(program, async (flags) => {
    const readConfig = () =>
      resolveServeConfig(flags, {
        env: process.env,
        readFile: (path) => readFileSync(path, "utf8"),
        builtInModelPath,
      });
    const resolved = readConfig();
    if (!resolved.ok) {
      writeError(`gpu-agent: ${resolved.message}\n`);
      exitCode = resolved.exitCode;
      return;
    }
    exitCode = await ensureAddon(packageRoot);
    if (exitCode !== 0) return;
    const [{ serve }, { openOwnedTurn }] = await Promise.all([
      import("./serve.ts"),
      import("./replicas/owned-turn.ts"),
    ]);
    exitCode = await serve(resolved.config, { writeOut, writeError }, { open: openOwnedTurn }, readConfig);
  });

  addReplicaHostCommand(program, async (options) => {
    const { runReplicaHost } = await import("./host/replica-host.ts");
    exitCode = await runReplicaHost(options);
  });

  addDoctorCommand(program, context);
  addModelsCommand(program, context);
  addKeysCommand(program, context);
  addStatusCommand(program, context);
  addConfigCommand(program, context);
  addReplayCommand(program, context);
  addBenchCommand(program, context);
  addScriptedEngineCommand(program);

  return (await runProgram(program, words)) ?? exitCode;
};

process.exit(await main(process.argv.slice(2)));
