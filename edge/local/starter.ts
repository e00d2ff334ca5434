/**
 * `npm start`: an agent with its replicas, an edge in front of it, a key to try it with, all on this machine and all gone afterwards.
 *
 * For trying out and for tests; a real edge is deployed with wrangler, a real agent runs under a supervisor. Keys are drawn anew
 * at every start and are written nowhere but on the terminal of whoever started it.
 */
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:net";
import { type AgentProcess, type AgentReady, startAgent } from "./agent-process.ts";
import { type EdgeWorker, startEdgeWorker } from "./edge-worker.ts";
import { parseStartOptions, type StartOptions, startExitCodes } from "./start-options.ts";

const SIGNING_KEY_ID = "local";
const API_KEY_ID = "demo";
const SIGNING_SECRET_BYTES = 32;
const API_KEY_BYTES = 24;

/** How often a starter that npm runs looks whether npm is still there. */
const PARENT_CHECK_MS = 250;

const say = (text: string): void => void process.stderr.write(`lockgate: ${text}\n`);

const codeOf = (error: unknown): unknown => (error instanceof Error && "code" in error ? error.code : undefined);

/** Looks before a long start whether the ports are free; 0 always is. Returns what to tell, if one is not. */
const takenPort = async (options: StartOptions): Promise<string | undefined> => {
  for (const [port, flag] of [
    [options.edgePort, "--port"],
    [options.agentPort, "--agent-port"],
  ] as const) {
    const probe = createServer();
    try {
      await once(probe.listen(port, "127.0.0.1"), "listening");
    } catch (error) {
      return `port ${port} cannot be used (${codeOf(error)}); choose another with ${flag}, or 0 for a free one`;
    } finally {
      probe.close();
    }
  }
  return undefined;
};

/**
 * The first signal asks for an orderly end, the second does not wait for it. Under npm the end of the parent is such a signal: npm
 * passes SIGTERM on to a shell, which dies of it and tells nobody.
 */
const watchSignals = (parent: number, onSecond: () => void): Promise<"signal"> => {
  const first = Promise.withResolvers<"signal">();
  let asked = false;
  const onSignal = (): void => {
    if (asked) onSecond();
    asked = true;
    first.resolve("signal");
  };
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, onSignal);
  if (process.env.npm_lifecycle_event !== undefined) {
    const timer = setInterval(() => {
      if (process.ppid === parent) return;
      clearInterval(timer);
      first.resolve("signal");
    }, PARENT_CHECK_MS);
    timer.unref();
  }
  return first.promise;
};

const announce = (options: StartOptions, edge: EdgeWorker, agent: AgentReady, apiKey: string): void => {
  if (options.json) {
    const pids = { edge: edge.pids, agent: agent.pids.agent, replicas: agent.pids.replicas, start: process.pid };
    const line = { edge: edge.url, agent: agent.url, key: apiKey, model: agent.model, pids };
    process.stdout.write(`${JSON.stringify(line)}\n`);
    return;
  }
  const messages = [{ role: "user", content: "What is the ISO code of Portugal?" }];
  const body = JSON.stringify({ model: agent.model, stream: true, temperature: 0, messages });
  process.stdout.write(
    `
  edge   ${edge.url}
  agent  ${agent.url} (${agent.model}, ${agent.pids.replicas.length} replicas)
  key    ${apiKey}

Try it:

  curl -N ${edge.url}/v1/chat/completions -H 'Authorization: Bearer ${apiKey}' \\
    -H 'Content-Type: application/json' -d '${body}'

Ctrl-C stops everything.
`,
  );
};

/** Starts both, waits for the end, and resolves with the exit code once nothing is left. */
const run = async (options: StartOptions, parent: number): Promise<number> => {
  let agent: AgentProcess | undefined;
  const interrupted = watchSignals(parent, () => {
    agent?.kill();
    // workerd ends with this process.
    process.exit(startExitCodes.killed);
  });
  const taken = await takenPort(options);
  if (taken !== undefined) {
    say(taken);
    return startExitCodes.unavailable;
  }
  const startedAt = performance.now();
  const apiKey = `lg-${randomBytes(API_KEY_BYTES).toString("base64url")}`;
  const signingKeys = JSON.stringify({ [SIGNING_KEY_ID]: randomBytes(SIGNING_SECRET_BYTES).toString("base64url") });

  say("starting the agent: it loads the model, and at the first start builds the native addon");
  agent = startAgent(options, signingKeys);
  let edge: EdgeWorker | undefined;
  try {
    const ready = await Promise.race([agent.ready, agent.exited, interrupted]);
    if (ready === "signal") return startExitCodes.ok;
    if (typeof ready === "number") {
      say("the agent did not start; its reason is above");
      return ready === 0 ? startExitCodes.software : ready;
    }
    say(`starting the edge (the agent took ${((performance.now() - startedAt) / 1000).toFixed(1)} s)`);
    edge = await startEdgeWorker({
      port: options.edgePort,
      env: {
        AGENTS: JSON.stringify([{ name: "local", url: ready.url, keyId: SIGNING_KEY_ID }]),
        AGENT_SIGNING_KEYS: signingKeys,
        API_KEY_HASHES: JSON.stringify({ [API_KEY_ID]: createHash("sha256").update(apiKey).digest("hex") }),
      },
      onLog: (line) => process.stderr.write(`${line}\n`),
    });
    announce(options, edge, ready, apiKey);
    const end = await Promise.race([agent.exited, interrupted]);
    if (end === "signal") {
      say("stopping");
      return startExitCodes.ok;
    }
    say(`the agent has ended (exit code ${end}); stopping the edge too`);
    return startExitCodes.software;
  } catch (error) {
    if (codeOf(error) === "ERR_ADDRESS_IN_USE") {
      say(`port ${options.edgePort} was taken meanwhile; choose another with --port`);
      return startExitCodes.unavailable;
    }
    say(error instanceof Error ? error.message : String(error));
    return startExitCodes.software;
  } finally {
    // The agent first: a turn that finishes still has its way out.
    await agent.stop();
    await edge?.stop();
  }
};

/** Runs the starter and ends the process. `parent` is the process that started this one, noted before anything was loaded. */
export const runStarter = async (parent: number): Promise<void> => {
  // npm runs scripts in the package's folder; paths are meant from where the person stands.
  const parsed = parseStartOptions(process.argv.slice(2), process.env.INIT_CWD ?? process.cwd());
  if (parsed.ok) process.exit(await run(parsed.options, parent));
  (parsed.exitCode === startExitCodes.ok ? process.stdout : process.stderr).write(parsed.text);
  process.exitCode = parsed.exitCode;
};
