/**
 * `npm run make-model -- --parameters 500M --output FILE`: a model with random weights for `gpu-agent bench serve`. Not part of the package:
 * an operator has models of their own.
 */
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { BUILT_IN_MODEL_PATH } from "./places.ts";
import { writeRandomModel } from "./random-model.ts";

const USAGE = "usage: npm run make-model -- --output FILE [--parameters 500M] [--seed NUMBER]";
const exitCodes = { ok: 0, usage: 64, software: 70 } as const;
const UNITS: Readonly<Record<string, number>> = { "": 1, K: 1e3, M: 1e6, B: 1e9 };

/** `500M` as 500,000,000; undefined where it is no such count. */
const parseCount = (words: string): number | undefined => {
  const match = /^(\d+(?:\.\d+)?)([KMB]?)$/i.exec(words);
  return match === null ? undefined : Number(match[1]) * (UNITS[(match[2] ?? "").toUpperCase()] ?? 1);
};

const refuse = (message: string): number => {
  process.stderr.write(`${message}\n${USAGE}\n`);
  return exitCodes.usage;
};

const main = (words: readonly string[]): number => {
  let values: { parameters: string; seed: string; output?: string | undefined };
  try {
    ({ values } = parseArgs({
      args: [...words],
      options: {
        output: { type: "string" },
        parameters: { type: "string", default: "500M" },
        seed: { type: "string", default: "1" },
      },
    }));
  } catch (error) {
    return refuse((error as Error).message);
  }
  const parameters = parseCount(values.parameters);
  const seed = Number(values.seed);
  if (values.output === undefined) return refuse("--output is missing");
  if (parameters === undefined) return refuse("--parameters is a count such as 500M");
  if (!Number.isInteger(seed) || seed < 1 || seed > 2 ** 32 - 1)
    return refuse("--seed is a number from 1 to 4294967295");
  // npm runs scripts in the package's folder; a path is meant from where the person stands.
  const path = resolve(process.env.INIT_CWD ?? process.cwd(), values.output);
  try {
    const made = writeRandomModel(path, BUILT_IN_MODEL_PATH, { parameters, seed });
    const { layers, width, feedForward } = made.shape;
    process.stdout.write(
      `${path}: ${(made.parameters / 1e6).toFixed(1)}M parameters, ${layers} layers of width ${width} (feed-forward ${feedForward}), ${(made.bytes / 2 ** 20).toFixed(0)} MiB\n`,
    );
    return exitCodes.ok;
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n`);
    return exitCodes.software;
  }
};

process.exitCode = main(process.argv.slice(2));
