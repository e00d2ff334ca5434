/**
 * `gpu-agent models`: which GGUF files there are, and what one of them is and needs. Reads vocabulary and metadata alone, so a file of
 * any size takes a moment; builds the native addon first where it is missing.
 */
import { readdir } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import type { Command } from "commander";
import { exitCodes } from "../config/exit-codes.ts";
import { serveOptions } from "../config/serve-options.ts";
import { ensureAddon } from "../models/ensure-addon.ts";
import { addAction, type CommandValues, jsonOption } from "./command-options.ts";
import { type CliContext, failWith } from "./context.ts";
import { CPU_DEVICE, fitReplicas, needOfReplica } from "./memory-fit.ts";
import { DEFAULT_KV_TYPE, kvBytesPerToken, type ModelFacts, modelFacts } from "./model-facts.ts";
import { inspectLines, type ListedModel, listLines, type ModelReport } from "./model-lines.ts";

/** Files that one list reads; a folder with more is not one of models. */
const MAX_LISTED_FILES = 1_000;
const SHARD = /-(\d{5})-of-\d{5}\.gguf$/i;

const listOptions = { json: jsonOption };
const inspectOptions = {
  slots: serveOptions.slots,
  context: serveOptions.context,
  kvType: serveOptions.kvType,
  json: jsonOption,
};

const EXAMPLES = `
Examples:
  gpu-agent models list
  gpu-agent models list . --json
  gpu-agent models inspect ./model.gguf --slots 4 --context 2048`;

/** The GGUF files of a folder by name; of a model in several files only the first, which stands for all. */
const ggufFiles = async (directory: string): Promise<string[]> => {
  const names = (await readdir(directory)).filter((name) => /\.gguf$/i.test(name));
  const first = names.filter((name) => Number(SHARD.exec(name)?.[1] ?? 1) === 1);
  return first
    .toSorted()
    .slice(0, MAX_LISTED_FILES)
    .map((name) => join(directory, name));
};

const listModels = async (context: CliContext, directory: string, json: boolean): Promise<number> => {
  let files: string[];
  try {
    files = await ggufFiles(directory);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return failWith(context, exitCodes.noInput, `${directory} cannot be listed (${code}); give a folder`);
  }
  const { inspectModel } = await import("../models/inspect-model.ts");
  const listed: ListedModel[] = [];
  const others = files.filter((path) => resolve(path) !== context.builtInModelPath);
  for (const path of [context.builtInModelPath, ...others]) {
    const file = path === context.builtInModelPath ? `${basename(path)} (built-in)` : path;
    try {
      listed.push({ file, facts: modelFacts(await inspectModel(path)) });
    } catch (error) {
      listed.push({ file, problem: (error as Error).message });
    }
  }
  context.writeOut(json ? `${JSON.stringify(listed)}\n` : `${listLines(listed).join("\n")}\n`);
  return exitCodes.ok;
};

const inspectFile = async (
  context: CliContext,
  path: string,
  asked: CommandValues<typeof inspectOptions>,
): Promise<number> => {
  const { inspectMachine, inspectModel } = await import("../models/inspect-model.ts");
  let facts: ModelFacts;
  try {
    facts = modelFacts(await inspectModel(path));
  } catch (error) {
    const { exitCodeOfNativeError } = await import("../host/replica-host.ts");
    return failWith(context, exitCodeOfNativeError(error), (error as Error).message);
  }
  const { devices } = inspectMachine();
  const gpus = devices.filter(({ kind }) => kind === "gpu").map(({ name }) => name);
  const need = needOfReplica(facts, { slots: asked.slots, contextTokens: asked.context, kvType: asked.kvType });
  const kvType = asked.kvType ?? DEFAULT_KV_TYPE;
  const report: ModelReport = {
    file: path,
    facts,
    kvType,
    kvBytesPerToken: kvBytesPerToken(facts, kvType),
    need,
    fits: fitReplicas(
      need,
      [[CPU_DEVICE], ...(gpus.length === 0 ? [] : [gpus])],
      new Map(devices.map(({ name, memoryFreeBytes }) => [name, memoryFreeBytes])),
    ),
  };
  context.writeOut(asked.json ? `${JSON.stringify(report)}\n` : `${inspectLines(report).join("\n")}\n`);
  return exitCodes.ok;
};

/** Adds `models list` and `models inspect`. */
export const addModelsCommand = (program: Command, context: CliContext): void => {
  const models = program
    .command("models")
    .description("List models, or tell what one is and whether it fits this machine.")
    .addHelpText("after", EXAMPLES);

  const list = models
    .command("list")
    .description("The built-in model and the GGUF files of a folder.")
    .argument("[DIR]", "the folder", ".");
  addAction(list, "models-list", listOptions, context, async ({ json }, directory = ".") => {
    const built = await ensureAddon(context.packageRoot);
    return built === exitCodes.ok ? listModels(context, directory, json) : built;
  });

  const inspect = models
    .command("inspect")
    .description("One GGUF file: architecture, size, number format, context, template, memory.")
    .argument("<FILE>", "the GGUF file");
  addAction(inspect, "models-inspect", inspectOptions, context, async (asked, file = "") => {
    const built = await ensureAddon(context.packageRoot);
    return built === exitCodes.ok ? inspectFile(context, file, asked) : built;
  });
};
