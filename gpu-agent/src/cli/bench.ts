/** `gpu-agent bench`: what the agent itself costs, beside its decoder (`serve`) and beside a plain pump (`control`). */
import { readFileSync } from "node:fs";
import type { Command } from "commander";
import { z } from "zod";
import { DECODER_LOAD_COMMAND, HTTP_LOAD_COMMAND } from "../bench/drivers.ts";
import { efforts, MAX_CONNECTION_COUNTS, MAX_CONNECTIONS } from "../bench/serve-plan.ts";
import { exitCodes } from "../config/exit-codes.ts";
import { loadServeConfig } from "../config/load-serve-config.ts";
import { LOCAL_KEY_VARIABLE } from "../config/secrets.ts";
import { integer, type ServeOption, serveOptions, text, toggle } from "../config/serve-options.ts";
import { addHostAction } from "../host/host-command.ts";
import { ensureAddon } from "../models/ensure-addon.ts";
import { addAction, type CommandValues } from "./command-options.ts";
import { type CliContext, failWith } from "./context.ts";

const json = text<undefined>({
  name: "json",
  argument: "FILE",
  help: "write the figures here too",
  fallback: undefined,
  fallbackText: "none",
});

const controlOptions = { json };

const connections: ServeOption<readonly number[] | undefined> = {
  name: "connections",
  argument: "LIST",
  help: "connections that ask at once, one measurement for each number",
  schema: z
    .array(z.number().int().min(1).max(MAX_CONNECTIONS))
    .min(1)
    .max(MAX_CONNECTION_COUNTS)
    .refine((counts) => new Set(counts).size === counts.length),
  fromText: (value) => value.split(",").map((item) => (/^\d{1,6}$/.test(item.trim()) ? Number(item) : item)),
  expected: `up to ${MAX_CONNECTION_COUNTS} different numbers from 1 to ${MAX_CONNECTIONS} with commas between them`,
  fallback: undefined,
  fallbackText: `${efforts.full.connections.join()}; with --quick ${efforts.quick.connections.join()}`,
};

const sizeOption = (name: "rounds" | "tokens", help: string, high: number) =>
  integer<undefined>({
    name,
    help,
    low: 1,
    high,
    fallback: undefined,
    fallbackText: `${efforts.full[name]}; with --quick ${efforts.quick[name]}`,
  });

const MAX_ROUNDS = 1_000;
const MAX_TOKENS = 1_000_000;

export const benchServeOptions = {
  model: { ...serveOptions.model, help: "the model to measure with, a GGUF file" },
  replicas: serveOptions.replicas,
  slots: serveOptions.slots,
  context: serveOptions.context,
  threads: serveOptions.threads,
  connections,
  rounds: sizeOption("rounds", "times that everything is measured, in rotated order", MAX_ROUNDS),
  tokens: sizeOption("tokens", "length of a streamed answer", MAX_TOKENS),
  quick: toggle({ name: "quick", help: "a look instead of a measurement: few, short rounds", fallback: false }),
  json,
};

export type BenchServeValues = CommandValues<typeof benchServeOptions>;

const SERVE_HELP = `
Examples:
  gpu-agent bench serve --quick
  gpu-agent bench serve --quick --model ./model.gguf --slots 4 --connections 4 --json ./figures.json

The same turns go to the decoder alone and, over HTTP on this machine, to a real agent of its own; tokens a second, time
per token and to the first token of both stand side by side, beside requests a second for short answers and the memory of
agent and replicas. The client takes its share of this machine's cores. Whatever else runs here changes the figures: look
at the spread over the rounds. Ctrl-C ends the run and all that it started, with exit code 130.`;

/** The command line of the agent that is measured. Its queue takes every connection, so that none is refused. */
export const servedWords = (
  values: BenchServeValues,
  counts: readonly number[],
  builtInModelPath: string,
): string[] => {
  const { model, replicas, slots, context, threads } = values;
  const words = [
    "serve",
    "--model",
    model ?? builtInModelPath,
    "--replicas",
    String(replicas),
    "--slots",
    String(slots),
  ];
  words.push("--queue", String(Math.max(...counts)));
  if (context !== undefined) words.push("--context", String(context));
  if (threads !== undefined) words.push("--threads", String(threads));
  return words;
};

const benchServe = async (values: BenchServeValues, context: CliContext): Promise<number> => {
  const effort = efforts[values.quick ? "quick" : "full"];
  const counts = values.connections ?? effort.connections;
  const { builtInModelPath } = context;
  const words = servedWords(values, counts, builtInModelPath);
  const resolved = loadServeConfig({
    argv: words,
    // The agent gets a key of its own when it is started; here any will do.
    env: { [LOCAL_KEY_VARIABLE]: "x".repeat(32) },
    readFile: (path) => readFileSync(path, "utf8"),
    builtInModelPath,
    version: "",
  });
  if (!resolved.ok) return failWith(context, resolved.exitCode, resolved.message);
  const built = await ensureAddon(context.packageRoot);
  if (built !== exitCodes.ok) return built;
  const { runServeBench } = await import("../bench/serve-bench.ts");
  return runServeBench(
    {
      words,
      config: resolved.config,
      connections: counts,
      rounds: values.rounds ?? effort.rounds,
      tokens: values.tokens ?? effort.tokens,
      quick: values.quick,
      jsonFile: values.json,
      env: context.env,
    },
    context,
  );
};

/** Hidden: the processes that a benchmark starts and talks to over their channel. */
const addDriverCommands = (program: Command, context: CliContext): void => {
  program.command(HTTP_LOAD_COMMAND, { hidden: true }).action(async () => {
    const { runHttpLoads } = await import("../bench/http-load.ts");
    await runHttpLoads();
  });
  addHostAction(program.command(DECODER_LOAD_COMMAND, { hidden: true }), async (options) => {
    const { runDecoderLoads } = await import("../bench/decoder-load.ts");
    try {
      await runDecoderLoads(options);
    } catch (error) {
      const { exitCodeOfNativeError } = await import("../host/replica-host.ts");
      context.endWith(failWith(context, exitCodeOfNativeError(error), (error as Error).message));
    }
  });
};

export const addBenchCommand = (program: Command, context: CliContext): void => {
  const bench = program.command("bench").description("Measure the agent's own overhead.");
  const control = bench
    .command("control")
    .description("What reader, pump, lock and scheme cost a turn, against a plain Python pump; no model.")
    .addHelpText("after", "\nExamples:\n  gpu-agent bench control --json ./figures.json");
  addAction(control, "bench-control", controlOptions, context, async ({ json: jsonFile }) => {
    const { runControlBench } = await import("../ownership/bench-control.ts");
    return runControlBench(jsonFile, context);
  });

  const serve = bench
    .command("serve")
    .description("What an agent adds to its decoder: time per token and to the first, requests/s, memory.")
    .addHelpText("after", SERVE_HELP);
  addAction(serve, "bench-serve", benchServeOptions, context, (values) => benchServe(values, context));
  addDriverCommands(program, context);
};
