/**
 * The edge: what it serves, in the order a request takes. Name it, find its route, tell whose it is, read it, admit it, pass it on.
 *
 * It holds no state, opens no stream and re-writes no byte of an answer.
 */
import { clientRequestId, contentDigest, deadlineMs, HEARTBEAT_PATH, USAGE_PATH } from "@lockgate/shared-types";
import { type Context, Hono } from "hono";
import { answerAdmin } from "./admin/admin.ts";
import { addRateLimits, admit } from "./admit/admit.ts";
import { estimateTokens } from "./admit/estimate-tokens.ts";
import { identify } from "./admit/identify.ts";
import { loadConfig } from "./config.ts";
import type { Env } from "./env.ts";
import { errorResponse } from "./errors.ts";
import { fleetView } from "./fleet/fleet-view.ts";
import { resolveModel } from "./fleet/resolve-model.ts";
import { takeHeartbeat } from "./internal/heartbeat.ts";
import { logError, logInfo, type RequestNames } from "./log.ts";
import { count } from "./metrics/count.ts";
import { snapshotAndTell, tellLater } from "./metrics/hand-over.ts";
import { answerMetrics } from "./metrics/metrics-route.ts";
import { METRICS_PATH, routeName, statusClass } from "./metrics/route-name.ts";
import { REQUEST_ID_BYTES, requestIdOf } from "./request-id.ts";
import { addAnswerHeaders } from "./security/answer-headers.ts";
import { addCorsHeaders } from "./security/cors.ts";
import { pathOf, targetFault } from "./security/request-target.ts";
import { forward } from "./upstream/forward.ts";
import { inspectBody } from "./upstream/inspect-body.ts";
import { isPlainJson } from "./upstream/media-type.ts";
import { passedFields } from "./upstream/passed-fields.ts";
import { type BodyResult, codeOfBodyFault, discardBody, readBody } from "./upstream/read-body.ts";
import { answerUsage } from "./usage/usage-route.ts";

interface Route {
  Bindings: Env;
  Variables: { names: RequestNames };
}

const pass = async (context: Context<Route>): Promise<Response> => {
  const request = context.req.raw;
  const names = context.get("names");
  const { requestId } = names;
  const loaded = await loadConfig(context.env);
  if (!loaded.ok) {
    logError("misconfigured", { ...names, hint: loaded.hint });
    return errorResponse("internal_error", requestId);
  }

  const identity = await identify(loaded.config.keyIdKey, request.headers);
  if (identity.kind === "refused") {
    logInfo("refused", { ...names, cause: identity.cause });
    count("refusals_total", [identity.cause]);
    return errorResponse(identity.code, requestId);
  }

  const isPost = request.method === "POST";
  if (isPost && !isPlainJson(request.headers)) {
    count("refusals_total", ["media_type"]);
    return errorResponse("unsupported_media_type", requestId);
  }
  const body: BodyResult = isPost ? await readBody(request) : { kind: "read", bytes: new Uint8Array(0) };
  if (body.kind !== "read") {
    count("refusals_total", [`body_${body.kind}`]);
    return errorResponse(codeOfBodyFault[body.kind], requestId);
  }
  const inspection = isPost ? inspectBody(body.bytes) : undefined;
  if (inspection?.ok === false) {
    logInfo("refused", { ...names, cause: inspection.cause });
    count("refusals_total", [inspection.cause]);
    return errorResponse(inspection.code, requestId);
  }

  const background = (work: Promise<unknown>): void => context.executionCtx.waitUntil(work);
  const { config } = loaded;
  const view = fleetView(context.env);
  await view.refresh((since) => snapshotAndTell(context.env, since, view.openBreakers()), background, Date.now);
  const model =
    inspection && resolveModel(inspection.view.model, view.agents(config.agents, Date.now()), config.heartbeatStaleMs);

  const needs =
    inspection === undefined
      ? ({ scope: "models", model: null, estimatedTokens: 0 } as const)
      : ({
          scope: "chat",
          // No name is on no list: a key that is bound to some models is refused.
          model: model ?? "",
          estimatedTokens: estimateTokens(body.bytes.length, inspection.view.maxTokens),
        } as const);
  const admitting = admit(context.env, context.executionCtx, identity, needs, names);
  // While the guard is asked: of a long body it takes as long as that.
  const digest = await contentDigest(body.bytes);
  const admission = await admitting;
  if (admission.kind === "refused") return admission.response;

  const url = new URL(request.url);
  const deadline = deadlineMs(request.headers.get("x-stainless-timeout"), Date.now());
  const { keyId, tenantSalt, diagnostics, lease, rateLimits } = admission;
  if (request.signal.aborted) {
    // The client went while it was admitted; nothing has been sent to an agent.
    background(lease.ended(null));
    return errorResponse("upstream_failed", requestId);
  }
  try {
    const response = await forward({
      config,
      env: context.env,
      view,
      request: {
        method: request.method,
        target: `${url.pathname}${url.search}`,
        passed: passedFields(request.headers),
        body: body.bytes,
        contentDigest: digest,
        // The only x-lockgate-* headers that reach an agent: a client's own are never copied.
        lockgate: {
          requestId,
          keyId,
          tenantSalt,
          ...(deadline === undefined ? {} : { deadlineMs: deadline }),
          ...(model === undefined ? {} : { model }),
        },
      },
      affinity: inspection === undefined ? requestId : `${keyId} ${inspection.view.conversation}`,
      clientSignal: request.signal,
      names,
      diagnostics,
      hooks: {
        renew: lease.renew,
        ended: async (agent) => {
          await lease.ended(agent);
          tellLater(context.env, background);
        },
      },
      background,
    });
    return addRateLimits(response, rateLimits);
  } catch (error) {
    background(lease.ended(null));
    throw error;
  }
};

/** A route that needs nothing of the request but its configuration: for agents, and for whoever watches. */
const internal =
  (take: typeof answerUsage) =>
  async (context: Context<Route>): Promise<Response> => {
    const names = context.get("names");
    const loaded = await loadConfig(context.env);
    if (loaded.ok) return take(context.req.raw, context.env, loaded.config, names);
    logError("misconfigured", { ...names, hint: loaded.hint });
    return errorResponse("internal_error", names.requestId);
  };

/** Every other method of a known path: OPTIONS tells what it takes, the rest is refused. */
const only =
  (allow: string) =>
  (context: Context<Route>): Response =>
    context.req.method === "OPTIONS"
      ? new Response(null, { status: 204, headers: { allow, "x-request-id": context.get("names").requestId } })
      : errorResponse("method_not_allowed", context.get("names").requestId, [["allow", allow]]);

const GET = "GET, HEAD, OPTIONS";
const POST = "POST, OPTIONS";

// The runtime hands paths over as they came. Routing the normalised one, which is also the one that is forwarded, keeps
// /v1/models/../../metrics from being routed as a model and signed as something else.
const edge = new Hono<Route>({ getPath: (request) => pathOf(request.url) });

edge.use(async (context, next) => {
  context.set("names", {
    requestId: requestIdOf(crypto.getRandomValues(new Uint8Array(REQUEST_ID_BYTES))),
    clientRequestId: clientRequestId(context.req.header("x-request-id")),
  });
  await next();
  const request = context.req.raw;
  if (context.res.status >= 400) await discardBody(request);
  addAnswerHeaders(context.res.headers, context.res.status, request.url.startsWith("https:"));
  count("responses_total", [routeName(context.req.path), statusClass(context.res.status)]);
  tellLater(context.env, (work) => context.executionCtx.waitUntil(work));
});

edge.use(async (context, next) => {
  const fault = targetFault(context.req.raw.url, context.req.raw.headers.get("host"));
  if (fault === undefined) return next();
  count("refusals_total", [`target_${fault}`]);
  return errorResponse(fault === "too_long" ? "request_too_large" : "invalid_value", context.get("names").requestId);
});

edge.use("/v1/*", async (context, next) => {
  await next();
  const loaded = await loadConfig(context.env);
  if (loaded.ok) addCorsHeaders(context.res.headers, context.req.raw, loaded.config.corsOrigins);
});

edge
  .get("/healthz", (context) =>
    Response.json({ status: "ok" }, { headers: { "x-request-id": context.get("names").requestId } }),
  )
  .all(only(GET));
edge.post("/v1/chat/completions", pass).all(only(POST));
edge.get("/v1/models", pass).all(only(GET));
edge.get("/v1/models/:id{.+}", pass).all(only(GET));
edge.post(HEARTBEAT_PATH, internal(takeHeartbeat)).all(only(POST));
edge.post(USAGE_PATH, internal(answerUsage)).all(only(POST));
edge.get(METRICS_PATH, internal(answerMetrics)).all(only(GET));
edge.all("/admin/*", (context) => answerAdmin(context.req.raw, context.env, context.get("names")));

edge.notFound((context) => errorResponse("not_found", context.get("names").requestId));
edge.onError((error, context) => {
  const names = context.get("names");
  logError("unexpected", { ...names, cause: error.message });
  return errorResponse("internal_error", names.requestId);
});

export { KeyGuard } from "./admit/key-guard.ts";
export { Fleet } from "./fleet/fleet-object.ts";
export default edge;
