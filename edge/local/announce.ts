/** What `npm start` prints once everything is ready: one JSON line for scripts, or text with an example for people. Pure. */
import type { AgentReady } from "./agent-process.ts";

export interface RunningParts {
  readonly edgeUrl: string;
  readonly edgePids: readonly number[];
  /** At least one, by name. */
  readonly agents: ReadonlyArray<{ readonly name: string; readonly ready: AgentReady }>;
  /** The demo key. */
  readonly key: string;
  /** Path of the admin credential's file. */
  readonly admin: string;
  readonly pid: number;
}

/** The line of --json. */
export const readyLine = ({ edgeUrl, edgePids, agents, key, admin, pid }: RunningParts): string => {
  const [first] = agents;
  return JSON.stringify({
    edge: edgeUrl,
    agent: first?.ready.url,
    agents: agents.map(({ name, ready }) => ({ name, url: ready.url })),
    key,
    admin,
    model: first?.ready.model,
    pids: {
      edge: edgePids,
      agent: first?.ready.pids.agent,
      agents: agents.map(({ ready }) => ready.pids.agent),
      replicas: agents.flatMap(({ ready }) => ready.pids.replicas),
      start: pid,
    },
  });
};

/** The text for people. */
export const readyText = ({ edgeUrl, agents, key, admin }: RunningParts): string => {
  const model = agents[0]?.ready.model ?? "";
  const messages = [{ role: "user", content: "What is the ISO code of Portugal?" }];
  const body = JSON.stringify({ model, stream: true, temperature: 0, messages });
  const agentLines = agents.map(
    ({ name, ready }) => `  agent  ${ready.url} (${name}: ${ready.model}, ${ready.pids.replicas.length} replicas)`,
  );
  return `
  edge   ${edgeUrl}
${agentLines.join("\n")}
  key    ${key}
  admin  ${admin}

Try it:

  curl -N ${edgeUrl}/v1/chat/completions -H 'Authorization: Bearer ${key}' \\
    -H 'Content-Type: application/json' -d '${body}'

  npm run admin -- usage --by key,model --credential ${admin}

Ctrl-C stops everything.
`;
};
