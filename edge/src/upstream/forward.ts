/**
 * Takes an admitted request to an agent and hands the agent's answer back, body untouched.
 *
 * Failover ends with the response headers: a second generation after the first byte would say things twice. The body stays the
 * runtime's own stream from socket to socket; nothing here ever reads it.
 */
import { encodeNonce, NONCE_BYTES } from "@lockgate/shared-types";
import type { Config } from "../config.ts";
import { errorResponse } from "../errors.ts";
import { pickAgents } from "../fleet/pick-agent.ts";
import { logError, logInfo, type RequestNames } from "../log.ts";
import { attempt, type UpstreamRequest } from "./attempt.ts";
import { clientHeaders } from "./response-headers.ts";

/** Answers with the first agent that answers at all. */
export const forward = async (
  config: Config,
  request: UpstreamRequest,
  clientSignal: AbortSignal,
  names: RequestNames,
): Promise<Response> => {
  const agents = pickAgents(config.agents, Math.random());
  if (agents.length === 0) {
    logError("no_agents", { ...names });
    return errorResponse("overloaded", names.requestId);
  }
  for (const [index, agent] of agents.entries()) {
    const nonce = encodeNonce(crypto.getRandomValues(new Uint8Array(NONCE_BYTES)));
    const result = await attempt(agent, request, clientSignal, config.upstreamHeadersTimeoutMs, Date.now(), nonce);
    const about = { ...names, keyId: request.lockgate.keyId, agent: agent.name, attempt: index + 1 };
    switch (result.kind) {
      case "answered": {
        const { response } = result;
        // The client was let in by us: a 401 from behind means that keys or clocks of edge and agent disagree.
        if (response.status === 401) logError("agent_refused_signature", about);
        else logInfo("answered", { ...about, status: response.status });
        return new Response(response.body, {
          status: response.status,
          headers: clientHeaders(response.headers, names.requestId),
        });
      }
      case "timed_out":
        logError("upstream_timeout", about);
        return errorResponse("upstream_timeout", names.requestId);
      case "client_gone":
        logInfo("client_gone", about);
        return errorResponse("upstream_failed", names.requestId);
      case "failed":
        logError("upstream_failed", { ...about, cause: result.cause });
    }
  }
  return errorResponse("upstream_failed", names.requestId);
};
