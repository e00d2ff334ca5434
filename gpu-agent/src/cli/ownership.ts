/** `gpu-agent replay`: what proves the ownership of replicas. No model, no GPU. */
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
