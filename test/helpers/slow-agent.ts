/**
 * A real agent with one replica of a slow model, and a real edge before it: for tests of a state that must last until it was looked at. The
 * model is the built-in one with its blocks repeated.
 */
import { type AgentUnderTest, startAgentUnderTest } from "./agent-process.ts";
import { makeDeepModel } from "./deep-model.ts";
import { type EdgeBeforeAgent, startEdgeBefore } from "./edge-before-agent.ts";

/** Blocks times this: about 10 to 30 ms a token, several seconds for a prompt of 900 words. */
const DEPTH = 32;

export interface SlowAgent {
  readonly agent: AgentUnderTest;
  readonly edge: EdgeBeforeAgent;
  /** Ends both; resolves with the agent's exit code. */
  stop(): Promise<number | null>;
}

export const startSlowAgent = async (): Promise<SlowAgent> => {
  const deep = makeDeepModel(DEPTH);
  const started: { agent?: AgentUnderTest; edge?: EdgeBeforeAgent } = {};
  const stop = async (): Promise<number | null> => {
    await started.edge?.stop();
    const code = (await started.agent?.stop()) ?? null;
    deep.remove();
    return code;
  };
  try {
    const agent = await startAgentUnderTest(["--replicas", "1", "--model", deep.path]);
    started.agent = agent;
    const edge = await startEdgeBefore(agent);
    started.edge = edge;
    return { agent, edge, stop };
  } catch (error) {
    await stop();
    throw error;
  }
};
