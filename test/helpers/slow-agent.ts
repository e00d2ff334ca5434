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
  const agent = await startAgentUnderTest(["--replicas", "1", "--model", deep.path]);
  const edge = await startEdgeBefore(agent);
  return {
    agent,
    edge,
    stop: async () => {
      await edge.stop();
      const code = await agent.stop();
      deep.remove();
      return code;
    },
  };
};
