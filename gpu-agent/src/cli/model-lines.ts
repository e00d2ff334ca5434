/** How `models` shows what it found: a table of models, and one model in full. Pure. */
import { formatBytes, formatCount, formatTable } from "./format.ts";
import type { MemoryFit, ReplicaNeed } from "./memory-fit.ts";
import type { ModelFacts } from "./model-facts.ts";

/** One file of a list: its facts, or why it could not be read. */
export type ListedModel =
  | { readonly file: string; readonly facts: ModelFacts }
  | { readonly file: string; readonly problem: string };

export interface ModelReport {
  readonly file: string;
  readonly facts: ModelFacts;
  readonly kvType: string;
  readonly kvBytesPerToken: number | null;
  readonly need: ReplicaNeed;
  readonly fits: readonly MemoryFit[];
}

const tokensText = (tokens: number | null): string => (tokens === null ? "not named" : `${tokens} tokens`);

export const listLines = (models: readonly ListedModel[]): string[] =>
  formatTable([
    ["FILE", "ARCHITECTURE", "PARAMETERS", "WEIGHTS", "FORMAT", "CONTEXT"],
    ...models.map((model) =>
      "problem" in model
        ? [model.file, `cannot be read: ${model.problem}`]
        : [
            model.file,
            model.facts.architecture,
            formatCount(model.facts.parameters),
            formatBytes(model.facts.weightBytes),
            model.facts.quantisation,
            model.facts.trainedContext === null ? "?" : String(model.facts.trainedContext),
          ],
    ),
  ]);

const templateText = ({ present, renders, problem }: ModelFacts["template"]): string => {
  if (!renders) return `cannot be used: ${problem}`;
  return present ? "in the file, renders" : "none in the file; ChatML is used";
};

const kvText = ({ facts, kvType, kvBytesPerToken, need }: ModelReport): string => {
  if (kvBytesPerToken === null) return "the metadata does not tell";
  const bound = facts.kvIsUpperBound ? "at most " : "";
  const slot =
    need.kvBytesPerSlot === null ? "" : `, ${formatBytes(need.kvBytesPerSlot)} a slot of ${need.contextTokens} tokens`;
  return `${bound}${formatBytes(kvBytesPerToken)} a token (${kvType})${slot}`;
};

/** One verdict in words, e.g. `fits: 10.9 MiB of 23.0 GiB free`. */
export const fitText = ({ verdict, needBytes, freeBytes }: MemoryFit): string => {
  const known = verdict === "unknown" ? "weights alone " : "";
  return `${verdict}: ${known}${formatBytes(needBytes)} of ${formatBytes(freeBytes)} free`;
};

export const inspectLines = (report: ModelReport): string[] => {
  const { facts, file, need, fits } = report;
  return formatTable([
    ["file", file],
    ["name", facts.name ?? "not named"],
    ["architecture", facts.architecture],
    ["parameters", `${formatCount(facts.parameters)} (${facts.parameters})`],
    ["weights", `${formatBytes(facts.weightBytes)}, ${facts.quantisation}`],
    ["layers", facts.layers === null ? "not named" : String(facts.layers)],
    ["vocabulary", `${facts.vocabularySize} tokens`],
    ["context", tokensText(facts.trainedContext)],
    ["chat template", templateText(facts.template)],
    ["KV cache", kvText(report)],
    ...fits.map((fit) => [
      `on ${fit.devices.join("+")}`,
      `${fitText(fit)} (weights + KV cache of ${need.slots} ${need.slots === 1 ? "slot" : "slots"}; work buffers come on top)`,
    ]),
  ]);
};
