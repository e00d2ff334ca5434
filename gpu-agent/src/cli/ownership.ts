/** `gpu-agent replay` and `gpu-agent bench control`: what proves and measures the ownership of replicas. No model, no GPU. */
import type { Command } from "commander";
import { exitCodes } from "../config/exit-codes.ts";
import { text } from "../config/serve-options.ts";
import { addAction } from "./command-options.ts";
import { type CliContext, failWith } from "./context.ts";

const replayOptions = {
  output: text<undefined>({
    name: "output",
    argument: "DIR",
    help: "a directory that does not exist yet, for logs and summary.json",
    fallback: undefined,
    fallbackText: "none, so it must be given",
  }),
};

const benchOptions = {
  json: text<undefined>({
    name: "json",
    argument: "FILE",
    help: "write the figures here too",
    fallback: undefined,
    fallbackText: "none",
  }),
};

export const addReplayCommand = (program: Command, context: CliContext): void => {
  const replay = program
    .command("replay")
    .description("Run the ownership contracts against every scheme and faulty subject; no model, no GPU.")
    .addHelpText("after", "\nExamples:\n  gpu-agent replay --output ./replay");
  addAction(replay, "replay", replayOptions, context, async ({ output }) => {
    if (output === undefined) return failWith(context, exitCodes.usage, "replay needs --output DIR");
    const { runReplay } = await import("../ownership/replay.ts");
    return runReplay(output, context);
  });
};

export const addBenchCommand = (program: Command, context: CliContext): void => {
  const bench = program.command("bench").description("Measure the agent's own overhead.");
  const control = bench
    .command("control")
    .description("What reader, pump, lock and scheme cost a turn, against a plain Python pump; no model.")
    .addHelpText("after", "\nExamples:\n  gpu-agent bench control --json ./figures.json");
  addAction(control, "bench-control", benchOptions, context, async ({ json }) => {
    const { runControlBench } = await import("../ownership/bench-control.ts");
    return runControlBench(json, context);
  });
};

/** Hidden: the simulated engine that the contracts start as a process of their own. */
export const addScriptedEngineCommand = (program: Command): void => {
  program
    .command("scripted-engine", { hidden: true })
    .requiredOption("--script <JSON>")
    .action(async ({ script }: { script: string }) => {
      const { runScriptedEngine } = await import("../ownership/scripted-engine-process.ts");
      await runScriptedEngine(script);
    });
};
