/**
 * What `bench serve` asks: one question for every turn, with the model's end tokens banned, so that every answer has as many tokens as were
 * asked for, whatever the model. And what keeps a run from being made, found before it begins.
 */
import { modelFacts } from "../cli/model-facts.ts";
import { exitCodes } from "../config/exit-codes.ts";
import type { ServeConfig } from "../config/load-serve-config.ts";
import { exitCodeOfNativeError } from "../host/replica-host.ts";
import { inspectModel } from "../models/inspect-model.ts";
import { ServedModel } from "../models/served-model.ts";

/** Long to answer for any model; the answer itself is not looked at. */
export const MESSAGES = [{ role: "user", content: "Count from 1 to 1000." }] as const;

/** What a run cannot go on from, with the exit code that says whose doing it is. */
export class BenchRefused extends Error {
  readonly exitCode: number;

  constructor(exitCode: number, message: string) {
    super(message);
    this.exitCode = exitCode;
  }
}

export interface Question {
  readonly bannedTokens: readonly number[];
  readonly promptTokens: number;
}

/** Reads the model's vocabulary: what to ban, and whether prompt and answer fit a slot. */
export const prepareQuestion = async (config: ServeConfig, tokens: number): Promise<Question> => {
  try {
    const inspected = await inspectModel(config.modelPath);
    const { trainedContext } = modelFacts(inspected);
    const vocabulary = await ServedModel.load(config.modelPath, config.modelName, 0);
    const tokenized = await vocabulary.tokenize(MESSAGES);
    await vocabulary.close();
    if (!tokenized.ok) throw new BenchRefused(exitCodes.dataError, tokenized.message);
    const promptTokens = tokenized.prompt.length;
    const contextTokens = Math.min(...[config.contextTokens, trainedContext].filter((one) => typeof one === "number"));
    if (promptTokens + tokens > contextTokens) {
      const message = `--tokens ${tokens} and a prompt of ${promptTokens} do not fit a slot of ${contextTokens} tokens`;
      throw new BenchRefused(exitCodes.usage, message);
    }
    return { bannedTokens: inspected.info.endTokens, promptTokens };
  } catch (error) {
    if (error instanceof BenchRefused) throw error;
    throw new BenchRefused(exitCodeOfNativeError(error), (error as Error).message);
  }
};
