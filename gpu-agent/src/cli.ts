/** The `gpu-agent` command: picks the sub-command, builds a missing addon first, and is the only place that ends the process. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { addServeCommand, createProgram, runProgram } from "./config/command-line.ts";
import { resolveServeConfig } from "./config/load-serve-config.ts";
import { addReplicaHostCommand } from "./host/host-command.ts";
import { ensureAddon } from "./models/ensure-addon.ts";

const packageRoot = new URL("../", import.meta.url);
const { version } = JSON.parse(readFileSync(new URL("package.json", packageRoot), "utf8")) as { version: string };
const builtInModelPath = fileURLToPath(new URL("models/tiny-atlas-3m-q8_0.gguf", packageRoot));

const writeOut = (text: string) => void process.stdout.write(text);
const writeError = (text: string) => void process.stderr.write(text);

const main = async (words: readonly string[]): Promise<number> => {
  let exitCode = 0;
  const program = createProgram({ version, writeOut, writeError });

  addServeCommand(program, async (flags) => {
    const resolved = resolveServeConfig(flags, {
      env: process.env,
      readFile: (path) => readFileSync(path, "utf8"),
      builtInModelPath,
    });
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
    exitCode = await serve(resolved.config, { writeOut, writeError }, { open: openOwnedTurn });
  });

  addReplicaHostCommand(program, async (options) => {
    const { runReplicaHost } = await import("./host/replica-host.ts");
    exitCode = await runReplicaHost(options);
  });

  program
    .command("replay")
    .description("Run the ownership contracts against every scheme and faulty subject; no model, no GPU.")
    .requiredOption("--output <DIR>", "a directory that does not exist yet, for logs and summary.json")
    .action(async ({ output }: { output: string }) => {
      const { runReplay } = await import("./ownership/replay.ts");
      exitCode = await runReplay(output, { writeOut, writeError });
    });

  const bench = program.command("bench").description("Measure the agent's own overhead.");
  bench
    .command("control")
    .description("What reader, pump, lock and scheme cost a turn, against a plain Python pump; no model.")
    .option("--json <FILE>", "write the figures here too")
    .action(async ({ json }: { json?: string }) => {
      const { runControlBench } = await import("./ownership/bench-control.ts");
      exitCode = await runControlBench(json, { writeOut, writeError });
    });

  program
    .command("scripted-engine", { hidden: true })
    .description("The simulated engine of the ownership contracts.")
    .requiredOption("--script <JSON>")
    .action(async ({ script }: { script: string }) => {
      const { runScriptedEngine } = await import("./ownership/scripted-engine-process.ts");
      await runScriptedEngine(script);
    });

  return (await runProgram(program, words)) ?? exitCode;
};

process.exit(await main(process.argv.slice(2)));
