/**
 * The edge's steps alone, each in a loop within one request, as a route of ladder.ts: what their own code costs when it is warm. Whoever asks
 * takes the time from outside, for the clock in here moves in whole ms.
 */
import { contentDigest, signRequest } from "@lockgate/shared-types";
import { identify } from "../src/admit/identify.ts";
import type { Config } from "../src/config.ts";
import type { Env } from "../src/env.ts";
import { fleetView } from "../src/fleet/fleet-view.ts";
import { rankAgents } from "../src/fleet/rank-agents.ts";
import { logInfo } from "../src/log.ts";
import { count } from "../src/metrics/count.ts";
import { inspectBody } from "../src/upstream/inspect-body.ts";
import { clientHeaders } from "../src/upstream/response-headers.ts";

/** POST /probe/steps/<name>/<times>, with the API key; the body is what is inspected and digested. */
export const STEPS_PATH = "/probe/steps/";

const upstreamHeaders = new Headers({ "content-type": "text/event-stream", "cache-control": "no-cache" });
const requestId = `req_${"0".repeat(32)}`;
const keyId = "0".repeat(32);

const stepsOf = (request: Request, body: Uint8Array<ArrayBuffer>, env: Env, config: Config) => {
  const view = fleetView(env);
  const [agent] = config.agents;
  if (agent === undefined) throw new Error("no agent is configured");
  const toSign = {
    method: "POST",
    url: `${agent.url}/v1/chat/completions`,
    contentDigest: `sha-256=:${"A".repeat(43)}=:`,
    lockgate: { requestId, keyId, tenantSalt: keyId, model: "m" },
  };
  const signed = signRequest(toSign, agent.keys[0], Date.now(), "n".repeat(22));
  return {
    nothing: () => undefined,
    identify: () => identify(config.keyIdKey, request.headers),
    inspect: () => inspectBody(body),
    digest: () => contentDigest(body),
    rank: () =>
      rankAgents(
        view.agents(config.agents, Date.now()),
        { model: "m", affinity: `${keyId} ${"x".repeat(100)}` },
        config.heartbeatStaleMs,
      ),
    sign: () => signRequest(toSign, agent.keys[0], Date.now(), "n".repeat(22)),
    "upstream request": async () =>
      new Request(toSign.url, { method: "POST", headers: Object.fromEntries(await signed), body }),
    signals: () => AbortSignal.any([request.signal, new AbortController().signal]),
    "client headers": () => clientHeaders(upstreamHeaders, requestId),
    log: () => logInfo("answered", { requestId, keyId, agent: agent.name, attempt: 1, status: 200, end: "complete" }),
    count: () => count("streams_total", [agent.name, "complete"]),
    "take and release": async () => {
      const identity = await identify(config.keyIdKey, request.headers);
      if (identity.kind === "refused") throw new Error(identity.cause);
      const { secretSha256 } = identity;
      const guard = env.KEY_GUARDS.getByName(identity.keyId);
      await guard.take({ secretSha256, requestId, scope: "models", model: null, estimatedTokens: 0 });
      await guard.release({ requestId, agent: null });
    },
  };
};

/** Does the step so often; answers GET with the names of all. */
export const answerSteps = async (request: Request, env: Env, config: Config): Promise<Response> => {
  const [name = "", times = ""] = decodeURIComponent(new URL(request.url).pathname).slice(STEPS_PATH.length).split("/");
  const steps: Readonly<Record<string, () => unknown>> = stepsOf(
    request,
    new Uint8Array(await request.arrayBuffer()),
    env,
    config,
  );
  if (request.method === "GET") return Response.json(Object.keys(steps));
  const step = steps[name];
  if (step === undefined) return new Response(null, { status: 404 });
  for (let done = 0; done < Number(times); done += 1) {
    const result = step();
    if (result instanceof Promise) await result;
  }
  return new Response(null, { status: 204 });
};
