/**
 * Takes an admitted request to an agent and hands the agent's answer back, body untouched.
 *
 * Failover ends with the response headers: a second generation after the first byte would say things twice. Before them it goes on to the
 * next agent when one cannot be reached, says nothing in time, takes no turn (503), or is full while another is not (429). Any other answer
 * is the client's. The body stays the runtime's own stream from socket to socket; nothing here ever reads it.
 */
import { encodeNonce, NONCE_BYTES, REPLICA_HEADER } from "@lockgate/shared-types";
import type { Config } from "../config.ts";
import { errorResponse } from "../errors.ts";
import type { Agent } from "../fleet/agents-config.ts";
import type { AgentUse, FleetView } from "../fleet/fleet-view.ts";
import { type RankedAgent, rankAgents } from "../fleet/rank-agents.ts";
import { logError, logInfo, type RequestNames } from "../log.ts";
import { count } from "../metrics/count.ts";
import { type AttemptResult, attempt, type UpstreamRequest } from "./attempt.ts";
import { judgeAnswer, judgeStatus, outcomeOfStatus } from "./judge-status.ts";
import { announcedBytes, passBody } from "./pass-body.ts";
import { clientHeaders } from "./response-headers.ts";

/** Agents that one request is tried at: more would only multiply the load on a fleet that is failing. */
export const MAX_ATTEMPTS = 3;
/** How often a request that runs says so; three times within a lease. */
export const RENEW_MS = 40_000;

/** What the key's guard wants to hear of a request. Neither may reject. */
export interface RequestHooks {
  /**
   * Nothing of the request runs any more; told once. `agent` is the one whose usage record is to come; null where no turn can have begun.
   */
  readonly ended: (agent: string | null) => Promise<void>;
  /** It still runs. */
  readonly renew: () => Promise<void>;
}

export interface ForwardOptions {
  readonly config: Config;
  /** The worker's bindings. */
  readonly env: object;
  readonly view: FleetView;
  readonly request: UpstreamRequest;
  /** Same for all requests of one conversation. */
  readonly affinity: string;
  readonly clientSignal: AbortSignal;
  readonly names: RequestNames;
  /** Whether the client may know where its request ran. */
  readonly diagnostics: boolean;
  readonly hooks: RequestHooks;
  /** Keeps work alive beyond the response. */
  readonly background: (work: Promise<unknown>) => void;
}

/** What is told of each try. */
type About = Readonly<Record<string, string | number | boolean | undefined>>;

/** The agents to try, best first; a single one twice: a connection that it closed while the request was on its way looks dead, and is not. */
const planOf = (ranked: readonly RankedAgent[]): readonly RankedAgent[] =>
  ranked.length === 1 ? [...ranked, ...ranked] : ranked;

/** One agent, with the key that it took last and, if it does not take that one, with its other key: while keys are rotated none is dropped. */
const attemptWithKeys = async (
  { view, request, env, clientSignal, config }: ForwardOptions,
  agent: Agent,
  about: About,
): Promise<AttemptResult> => {
  const first = view.keyInUse(agent.name) % agent.keys.length;
  const order = agent.keys.map((_, index) => (first + index) % agent.keys.length);
  let result: AttemptResult | undefined;
  for (const index of order) {
    const key = agent.keys[index];
    if (key === undefined) continue;
    const nonce = encodeNonce(crypto.getRandomValues(new Uint8Array(NONCE_BYTES)));
    const { upstreamHeadersTimeoutMs: headersTimeoutMs } = config;
    if (result?.kind === "answered") await result.response.body?.cancel();
    result = await attempt({ agent, key, request, env, clientSignal, headersTimeoutMs, nowMs: Date.now(), nonce });
    if (result.kind !== "answered" || judgeStatus(result.response.status) !== "unknown_key") {
      if (result.kind === "answered") view.keyTaken(agent.name, index);
      return result;
    }
    // The client was let in by us: a 401 from behind means that keys or clocks of edge and agent disagree.
    logError("agent_refused_signature", { ...about, signingKeyId: key.keyId });
  }
  return result ?? { kind: "failed", cause: "no key" };
};

/** An agent's answer as the client gets it. It is logged when it has ended: a line takes time, and then nobody waits for it. */
const deliver = (
  options: ForwardOptions,
  response: Response,
  use: AgentUse,
  agent: string,
  attempts: number,
  about: About,
): Response => {
  const { names, clientSignal, background, hooks, diagnostics, request } = options;
  const { status } = response;
  const headers = clientHeaders(response.headers, names.requestId);
  if (diagnostics) {
    headers.set("x-lockgate-agent", agent);
    headers.set("x-lockgate-attempts", String(attempts));
    const replica = response.headers.get(REPLICA_HEADER);
    // A number, or nothing: what else an agent writes there is no client's business.
    if (replica !== null && /^\d{1,4}$/.test(replica)) headers.set(REPLICA_HEADER, replica);
  }
  const timer = setInterval(() => background(hooks.renew()), RENEW_MS);
  const passed = passBody(response.body, announcedBytes(response.headers), clientSignal);
  const whenEnded = passed.ended.then(async (end) => {
    clearInterval(timer);
    count("streams_total", [agent, end]);
    if (end === "complete") use.ended(outcomeOfStatus(status), Date.now());
    else use.ended(end === "broken" ? "failure" : "unknown", Date.now());
    // A turn that was refused leaves no record; one that began does, however it ended.
    const hadTurn = request.method === "POST" && (status < 400 || status >= 500);
    const told = hooks.ended(hadTurn ? agent : null);
    if (end === "broken") logError("stream_broken", about);
    else logInfo("answered", { ...about, status, end });
    await told;
  });
  background(whenEnded);
  return new Response(passed.body, { status, headers });
};

interface Refusal {
  readonly response: Response;
  readonly agent: string;
  readonly attempts: number;
}

/** A refusal that nobody has improved on goes to the client as it is. */
const deliverRefusal = ({ names, clientSignal, background }: ForwardOptions, { response }: Refusal): Response => {
  const passed = passBody(response.body, announcedBytes(response.headers), clientSignal);
  background(passed.ended);
  return new Response(passed.body, {
    status: response.status,
    headers: clientHeaders(response.headers, names.requestId),
  });
};

const rank = ({ config, view, request, affinity }: ForwardOptions) =>
  rankAgents(
    view.agents(config.agents, Date.now()),
    { model: request.lockgate.model, affinity },
    config.heartbeatStaleMs,
  );

/** Answers with the first agent that takes the request. Whatever it comes to, `hooks.ended` is told once. */
export const forward = async (options: ForwardOptions): Promise<Response> => {
  const { config, view, request, names, hooks, background } = options;
  const { requestId } = names;
  /** Ends without an answer of an agent. */
  const giveUp = (response: Response, agent: string | null = null): Response => {
    background(hooks.ended(agent));
    return response;
  };
  const ranking = rank(options);
  if (ranking.kind !== "ranked") {
    const cause = ranking.kind === "none_ready" ? "no_agents" : "no_such_model";
    logError(cause, { ...names });
    count("refusals_total", [cause]);
    return giveUp(errorResponse(ranking.kind === "none_ready" ? "overloaded" : "model_not_found", requestId));
  }

  let refusal: Refusal | undefined;
  let attempts = 0;
  let last: "failed" | "timed_out" | undefined;
  let lastName: string | undefined;
  for (const { name, free } of planOf(ranking.agents)) {
    if (attempts >= MAX_ATTEMPTS) break;
    const isSecondTry = ranking.agents.length === 1 && attempts === 1;
    if (isSecondTry && (last !== "failed" || refusal !== undefined)) break;
    // Of agents that are full one is enough.
    if (refusal?.response.status === 429 && !free) continue;
    const agent = config.agents.find((one) => one.name === name);
    const use = agent && view.begin(name, Date.now(), config.breakerOpenMs);
    if (agent === undefined || use === undefined) continue;
    attempts += 1;
    if (lastName !== undefined && lastName !== name) count("upstream_failovers_total", [lastName]);
    lastName = name;
    const about = { ...names, keyId: request.lockgate.keyId, agent: name, attempt: attempts };
    const result = await attemptWithKeys(options, agent, about);
    if (result.kind !== "answered") count("upstream_attempts_total", [name, result.kind]);
    if (result.kind === "client_gone") {
      use.ended("unknown", Date.now());
      logInfo("client_gone", about);
      return giveUp(errorResponse("upstream_failed", requestId), request.method === "POST" ? name : null);
    }
    if (result.kind !== "answered") {
      use.ended("failure", Date.now());
      last = result.kind;
      logError(result.kind === "timed_out" ? "upstream_timeout" : "upstream_failed", {
        ...about,
        ...(result.kind === "failed" ? { cause: result.cause } : {}),
      });
      continue;
    }
    const { response } = result;
    const verdict = judgeAnswer(response.status, response.headers.get("content-type"));
    const outcome = verdict === "misled" && response.status < 500 ? "unknown" : outcomeOfStatus(response.status);
    count("upstream_attempts_total", [name, verdict]);
    if (outcome === "success") use.answered(Date.now());
    if (verdict === "answer") {
      await refusal?.response.body?.cancel();
      return deliver(options, response, use, name, attempts, about);
    }
    use.ended(outcome, Date.now());
    if (verdict === "busy" || verdict === "refusing") {
      logInfo("agent_refused_turn", { ...about, status: response.status });
      await refusal?.response.body?.cancel();
      refusal = { response, agent: name, attempts };
      continue;
    }
    await response.body?.cancel();
    last = "failed";
    if (verdict !== "unknown_key") logError("agent_not_reached", { ...about, status: response.status });
  }
  if (refusal !== undefined) return giveUp(deliverRefusal(options, refusal));
  if (attempts === 0) {
    count("refusals_total", ["no_agents"]);
    return giveUp(errorResponse("overloaded", requestId));
  }
  return giveUp(errorResponse(last === "timed_out" ? "upstream_timeout" : "upstream_failed", requestId));
};
