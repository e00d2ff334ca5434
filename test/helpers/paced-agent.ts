/**
 * A real agent whose replicas are paced engines (paced-engine.ts), and a real edge before it: for tests of what a client gets while an engine
 * is slow, silent or lost. Turns are told apart by the seeds of their requests.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type AgentUnderTest, poll, startAgentUnderTest } from "./agent-process.ts";
import { type EdgeBeforeAgent, startEdgeBefore } from "./edge-before-agent.ts";
import { type OpenRequest, open } from "./edge-worker-client.ts";
import { type EngineLine, readEngineLines } from "./engine-lines.ts";

const engineFile = fileURLToPath(new URL("paced-engine.ts", import.meta.url));

export interface PacedAgent {
  readonly agent: AgentUnderTest;
  readonly edge: EdgeBeforeAgent;
  /** Sends a chat completion to the edge, on a connection of its own. */
  readonly send: (body: object, headers?: Readonly<Record<string, string>>) => OpenRequest;
  /** Lines of the engine that got the request with this seed, from its GEN on to its end as far as it came. */
  readonly turn: (seed: number) => readonly EngineLine[];
  /** Polls the turn's lines until they are as wanted. */
  readonly untilTurn: (
    seed: number,
    wanted: (lines: readonly EngineLine[]) => boolean,
    what: string,
  ) => Promise<readonly EngineLine[]>;
  stop(): Promise<number | null>;
}

/** A body whose engine behaves as the seed says. */
export const pacedBody = (seed: number, extra: object = {}): object => ({
  model: "default",
  messages: [{ role: "user", content: "Hello" }],
  seed,
  ...extra,
});

export const startPacedAgent = async (words: readonly string[]): Promise<PacedAgent> => {
  const directory = mkdtempSync(join(tmpdir(), "lockgate-paced-"));
  const command = JSON.stringify([process.execPath, engineFile]);
  const agent = await startAgentUnderTest(["--engine-command", command, "--wire-log", directory, ...words]);
  const edge = await startEdgeBefore(agent);
  const turn = (seed: number): readonly EngineLine[] => {
    const lines = readEngineLines(directory);
    const gen = lines.find(({ text }) => text.startsWith("GEN ") && text.split(" ").includes(`seed=${seed}`));
    if (gen === undefined) return [];
    const own = lines.filter(({ pid }) => pid === gen.pid);
    const from = own.slice(own.indexOf(gen));
    const end = from.findIndex(({ text }) => /^(DONE|ERR) /.test(text));
    return end === -1 ? from : from.slice(0, end + 1);
  };
  return {
    agent,
    edge,
    send: (body, headers = {}) => open({ url: edge.url, apiKey: edge.key }, { headers, body: JSON.stringify(body) }),
    turn,
    untilTurn: (seed, wanted, what) => poll(() => turn(seed), wanted, what),
    stop: async () => {
      await edge.stop();
      const code = await agent.stop();
      rmSync(directory, { recursive: true, force: true });
      return code;
    },
  };
};
