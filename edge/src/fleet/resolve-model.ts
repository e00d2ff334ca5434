/**
 * Which model a request is really for. Pure. A key is checked for the model that will be dispatched, so a name that stands for another is
 * resolved before, and the agent is told the answer under the edge's signature.
 */
import { DEFAULT_MODEL_NAME, isModelName } from "@lockgate/shared-types";
import { type AgentView, isRoutable, modelsOf } from "./rank-agents.ts";

/**
 * The model to be dispatched for what the client asked for. `default` is the first model of the first agent that takes turns, in the order
 * of the configuration; it stays `default` while no agent's models are known. Undefined for what cannot be a model's name: the agent
 * refuses that body.
 */
export const resolveModel = (
  asked: string | undefined,
  agents: readonly AgentView[],
  staleMs: number,
): string | undefined => {
  if (asked === undefined || !isModelName(asked)) return undefined;
  if (asked !== DEFAULT_MODEL_NAME) return asked;
  const first = agents.find((agent) => isRoutable(agent, staleMs) && modelsOf(agent) !== undefined);
  return (first && modelsOf(first)?.[0]) ?? DEFAULT_MODEL_NAME;
};
