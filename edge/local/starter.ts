/**
 * `npm start`: agents with their replicas, an edge in front of them, a key to try it with, all on this machine and all gone afterwards.
 *
 * For trying out and for tests; a real edge is deployed with wrangler, a real agent runs under a supervisor. Keys are drawn anew
 * at every start; the API key is written nowhere but on the terminal of whoever started it, the admin credential into a file of theirs.
 */
import { createHash, randomBytes } from "node:crypto";
import { join } from "node:path";
import { type AgentProcess, type AgentReady, startAgent } from "./agent-process.ts";
import { readyLine, readyText } from "./announce.ts";
import { claimPorts } from "./claim-ports.ts";
import { createDemoKey } from "./demo-key.ts";
import { type EdgeWorker, startEdgeWorker } from "./edge-worker.ts";
import { waitUntilHeard } from "./heard-agents.ts";
import { makePrivateFolder, type PrivateFolder } from "./private-folder.ts";
import { parseStartOptions, type StartOptions, startExitCodes } from "./start-options.ts";
import { watchSignals } from "./watch-signals.ts";

const SECRET_BYTES = 32;

const say = (text: string): void => void process.stderr.write(`lockgate: ${text}\n`);

const drawSecret = (): string => randomBytes(SECRET_BYTES).toString("base64url");

/** An agent before it starts. Each has a signing key of its own: none can speak for another. */
interface PlannedAgent {
  readonly name: string;
  readonly port: number;
  readonly keyId: string;
  readonly secret: string;
}

const planAgents = (ports: readonly number[]): PlannedAgent[] =>
  ports.map((port, index) => ({
    name: `local-${index + 1}`,
    port,
    keyId: `local-${index + 1}`,
    secret: drawSecret(),
  }));

const startEdge = (port: number, agents: readonly PlannedAgent[], adminToken: string): Promise<EdgeWorker> =>
  startEdgeWorker({
    port,
    env: {
      AGENTS: JSON.stringify(
        agents.map(({ name, port: at, keyId }) => ({ name, url: `http://127.0.0.1:${at}`, keyIds: [keyId] })),
      ),
      AGENT_SIGNING_KEYS: JSON.stringify(Object.fromEntries(agents.map(({ keyId, secret }) => [keyId, secret]))),
      KEY_ID_SECRET: drawSecret(),
      TENANT_SALT_SECRET: drawSecret(),
      ADMIN_TOKEN_HASH: createHash("sha256").update(adminToken).digest("hex"),
    },
    onLog: (line) => process.stderr.write(`${line}\n`),
  });

/** Everything that a run has started, to be ended in order. */
interface Run {
  readonly agents: AgentProcess[];
  edge: EdgeWorker | undefined;
  folder: PrivateFolder | undefined;
}

const endedAgent = (exitCode: number): number => {
  say(`the agent has ended (exit code ${exitCode}); stopping everything else too`);
  return startExitCodes.software;
};

/** Starts all of it and waits for the end. Resolves with the exit code; what was started is the caller's to end. */
const runParts = async (options: StartOptions, run: Run, interrupted: Promise<"signal">): Promise<number> => {
  const claimed = await claimPorts([
    { port: options.edgePort, flag: "--port" },
    ...Array.from({ length: options.agents }, (_, index) => ({
      port: options.agentPort === 0 ? 0 : options.agentPort + index,
      flag: "--agent-port",
    })),
  ]);
  if (!claimed.ok) {
    say(claimed.message);
    return startExitCodes.unavailable;
  }
  const [edgePort = 0, ...agentPorts] = claimed.ports;
  const planned = planAgents(agentPorts);
  const adminToken = drawSecret();
  run.folder = await makePrivateFolder();
  const { folder } = run;

  // The edge first: an agent's first heartbeat arrives then.
  say("starting the edge");
  run.edge = await startEdge(edgePort, planned, adminToken);
  const { edge } = run;
  if ((await Promise.race([interrupted, "not yet"])) === "signal") return startExitCodes.ok;
  const startedAt = performance.now();
  say(
    `starting ${options.agents === 1 ? "the agent" : `${options.agents} agents`}: loading the model, and at the first start building the native addon`,
  );
  for (const { name, port, keyId, secret } of planned) {
    run.agents.push(
      startAgent({
        options,
        name,
        port,
        signingKeys: JSON.stringify({ [keyId]: secret }),
        edgeUrl: edge.url,
        spoolDirectory: join(folder.path, `spool-${name}`),
      }),
    );
    // The first one builds what is missing; the others would build the same at the same time.
    if (run.agents.length === 1 && planned.length > 1) {
      const first = await Promise.race([run.agents[0]?.ready, run.agents[0]?.exited, interrupted]);
      if (typeof first !== "object") break;
    }
  }
  const anyExit = Promise.race(run.agents.map(({ exited }) => exited));
  const ready = await Promise.race([Promise.all(run.agents.map((agent) => agent.ready)), anyExit, interrupted]);
  if (ready === "signal") return startExitCodes.ok;
  if (typeof ready === "number") {
    say("an agent did not start; its reason is above");
    return ready === 0 ? startExitCodes.software : ready;
  }
  const over = new AbortController();
  const heard = waitUntilHeard(edge.url, adminToken, over.signal);
  const early = await Promise.race([heard, anyExit, interrupted]).finally(() => over.abort());
  if (early === "signal") return startExitCodes.ok;
  if (early !== undefined) return endedAgent(early);
  say(`ready (the agents took ${((performance.now() - startedAt) / 1000).toFixed(1)} s)`);

  const parts = {
    edgeUrl: edge.url,
    edgePids: edge.pids,
    agents: planned.map(({ name }, index) => ({ name, ready: ready[index] as AgentReady })),
    key: await createDemoKey(edge.url, adminToken),
    admin: await folder.writeCredential(edge.url, adminToken),
    pid: process.pid,
  };
  process.stdout.write(options.json ? `${readyLine(parts)}\n` : readyText(parts));
  const end = await Promise.race([anyExit, interrupted]);
  if (end === "signal") {
    say("stopping");
    return startExitCodes.ok;
  }
  return endedAgent(end);
};

/** Runs it and resolves with the exit code once nothing is left. */
const runOptions = async (options: StartOptions, parent: number): Promise<number> => {
  const run: Run = { agents: [], edge: undefined, folder: undefined };
  const interrupted = watchSignals(parent, () => {
    for (const agent of run.agents) agent.kill();
    run.folder?.removeNow();
    // workerd ends with this process.
    process.exit(startExitCodes.killed);
  });
  try {
    return await runParts(options, run, interrupted);
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ERR_ADDRESS_IN_USE") {
      say(`port ${options.edgePort} was taken meanwhile; choose another with --port`);
      return startExitCodes.unavailable;
    }
    say(error instanceof Error ? error.message : String(error));
    return startExitCodes.software;
  } finally {
    // The agents first: a turn that finishes still has its way out, and its usage record too.
    await Promise.all(run.agents.map((agent) => agent.stop()));
    await run.edge?.stop();
    await run.folder?.remove();
  }
};

/** Runs the starter and ends the process. `parent` is the process that started this one, noted before anything was loaded. */
export const runStarter = async (parent: number): Promise<void> => {
  // npm runs scripts in the package's folder; paths are meant from where the person stands.
  const parsed = parseStartOptions(process.argv.slice(2), process.env.INIT_CWD ?? process.cwd());
  if (parsed.ok) process.exit(await runOptions(parsed.options, parent));
  (parsed.exitCode === startExitCodes.ok ? process.stdout : process.stderr).write(parsed.text);
  process.exitCode = parsed.exitCode;
};
