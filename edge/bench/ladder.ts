/**
 * A request's way through the edge as a ladder: each rung does what the one below it does and one step more, with the edge's own modules, so
 * that the difference between two rungs is what a step costs. Measured by test/bench/edge.ts; never deployed.
 *
 * POST /<rung>/v1/chat/completions goes through the steps up to that rung; every other path is the edge's own (the admin API, say). POST
 * /probe/take times takes at a key's guard, /probe/steps/ runs the steps' own code alone.
 */
import { contentDigest, encodeNonce, NONCE_BYTES } from "@lockgate/shared-types";
import { admit } from "../src/admit/admit.ts";
import { estimateTokens } from "../src/admit/estimate-tokens.ts";
import { identify } from "../src/admit/identify.ts";
import { type Config, loadConfig } from "../src/config.ts";
import type { Env } from "../src/env.ts";
import type { Agent } from "../src/fleet/agents-config.ts";
import { fleetOf } from "../src/fleet/fleet-object.ts";
import { fleetView } from "../src/fleet/fleet-view.ts";
import { rankAgents } from "../src/fleet/rank-agents.ts";
import { resolveModel } from "../src/fleet/resolve-model.ts";
import { REQUEST_ID_BYTES, requestIdOf } from "../src/request-id.ts";
import { attempt } from "../src/upstream/attempt.ts";
import { inspectBody } from "../src/upstream/inspect-body.ts";
import { announcedBytes, passBody } from "../src/upstream/pass-body.ts";
import { readBody } from "../src/upstream/read-body.ts";
import { clientHeaders } from "../src/upstream/response-headers.ts";
import edge, { Fleet, KeyGuard } from "../src/worker.ts";
import { answerSteps, STEPS_PATH } from "./step-probe.ts";
import { answerProbe, PROBE_PATH } from "./take-probe.ts";

/** From the bottom up. */
const rungs = ["bare", "identify", "body", "guard", "route", "sign", "hook"] as const;
type Rung = (typeof rungs)[number];

interface Climb {
  readonly request: Request;
  readonly env: Env;
  readonly context: ExecutionContext;
  readonly config: Config;
  readonly agent: Agent;
  readonly target: string;
  readonly requestId: string;
  readonly does: (rung: Rung) => boolean;
}

/** What the rungs up to "route" leave behind, with placeholders for those that were not climbed. */
interface Known {
  readonly body: Uint8Array<ArrayBuffer> | undefined;
  readonly digest: string;
  readonly keyId: string;
  readonly tenantSalt: string;
  readonly model: string;
}

const prepare = async ({ request, env, context, config, requestId, does }: Climb): Promise<Known> => {
  const known = { body: undefined, digest: "", keyId: "0".repeat(32), tenantSalt: "0".repeat(32), model: "m" };
  if (!does("identify")) return known;
  const identity = await identify(config.keyIdKey, request.headers);
  if (identity.kind === "refused") throw new Error(identity.cause);
  const { keyId } = identity;
  if (!does("body")) return { ...known, keyId };
  const read = await readBody(request);
  if (read.kind !== "read") throw new Error(read.kind);
  const body = read.bytes;
  const inspection = inspectBody(body);
  if (!inspection.ok) throw new Error(inspection.cause);
  const digest = await contentDigest(body);
  const { conversation, maxTokens } = inspection.view;
  if (!does("guard")) return { ...known, keyId, body, digest };
  const names = { requestId, clientRequestId: undefined };
  const needs = { scope: "chat", model: "m", estimatedTokens: estimateTokens(body.length, maxTokens) } as const;
  const admission = await admit(env, context, identity, needs, names);
  if (admission.kind === "refused") throw new Error("refused");
  const { tenantSalt, lease } = admission;
  void lease.ended(null);
  if (!does("route")) return { ...known, keyId, body, digest, tenantSalt };
  const view = fleetView(env);
  await view.refresh(
    (since) => fleetOf(env).snapshot(since),
    (work) => context.waitUntil(work),
    Date.now,
  );
  const agents = () => view.agents(config.agents, Date.now());
  const model = resolveModel(inspection.view.model, agents(), config.heartbeatStaleMs) ?? "m";
  const ranking = rankAgents(agents(), { model, affinity: `${keyId} ${conversation}` }, config.heartbeatStaleMs);
  if (ranking.kind !== "ranked") throw new Error(ranking.kind);
  return { body, digest, keyId, tenantSalt, model };
};

/** Below "body" the fetch is the one of bare.ts; below "sign" a plain one, for a copy of a request with another body costs more than both. */
const send = async (climb: Climb, { body, digest, keyId, tenantSalt, model }: Known): Promise<Response> => {
  const { request, env, config, agent, target, requestId, does } = climb;
  const url = `${agent.url}${target}`;
  if (body === undefined) return fetch(url, request);
  if (!does("sign"))
    return fetch(url, { method: request.method, headers: { "content-type": "application/json" }, body });
  const result = await attempt({
    agent,
    key: agent.keys[0],
    request: {
      method: request.method,
      target,
      passed: [],
      body,
      contentDigest: digest,
      lockgate: { requestId, keyId, tenantSalt, model },
    },
    env,
    clientSignal: request.signal,
    headersTimeoutMs: config.upstreamHeadersTimeoutMs,
    nowMs: Date.now(),
    nonce: encodeNonce(crypto.getRandomValues(new Uint8Array(NONCE_BYTES))),
  });
  if (result.kind !== "answered") throw new Error(result.kind);
  return result.response;
};

const climbTo = async (
  rung: Rung,
  target: string,
  request: Request,
  config: Config,
  env: Env,
  context: ExecutionContext,
): Promise<Response> => {
  const [agent] = config.agents;
  if (agent === undefined) throw new Error("no agent is configured");
  const top = rungs.indexOf(rung);
  const climb: Climb = {
    request,
    env,
    context,
    config,
    agent,
    target,
    requestId: requestIdOf(crypto.getRandomValues(new Uint8Array(REQUEST_ID_BYTES))),
    does: (step) => rungs.indexOf(step) <= top,
  };
  const response = await send(climb, await prepare(climb));
  if (!climb.does("hook")) return new Response(response.body, response);
  const passed = passBody(response.body, announcedBytes(response.headers), request.signal);
  context.waitUntil(passed.ended);
  return new Response(passed.body, {
    status: response.status,
    headers: clientHeaders(response.headers, climb.requestId),
  });
};

export { Fleet, KeyGuard };

export default {
  async fetch(request: Request, env: Env, context: ExecutionContext): Promise<Response> {
    const { pathname } = new URL(request.url);
    if (pathname === PROBE_PATH) return answerProbe(request, env);
    const rung = rungs.find((name) => pathname.startsWith(`/${name}/`));
    if (rung === undefined && !pathname.startsWith(STEPS_PATH)) return edge.fetch(request, env, context);
    const loaded = await loadConfig(env);
    if (!loaded.ok) throw new Error(loaded.hint);
    if (rung === undefined) return answerSteps(request, env, loaded.config);
    return climbTo(rung, pathname.slice(rung.length + 1), request, loaded.config, env, context);
  },
};
