/**
 * The edge: what it serves, in the order a request takes. Name it, find its route, admit it, read it, pass it on.
 *
 * It holds no state, opens no stream and re-writes no byte of an answer. Limits and accounting are not here yet.
 */
import { clientRequestId, contentDigest, deadlineMs } from "@lockgate/shared-types";
import { type Context, Hono } from "hono";
import { admitByKeyHashes } from "./admit/key-hashes.ts";
import { loadConfig } from "./config.ts";
import type { Env } from "./env.ts";
import { errorResponse } from "./errors.ts";
import { logError, logInfo, type RequestNames } from "./log.ts";
import { REQUEST_ID_BYTES, requestIdOf } from "./request-id.ts";
import { forward } from "./upstream/forward.ts";
import { isPlainJson } from "./upstream/media-type.ts";
import { type BodyResult, discardBody, readBody } from "./upstream/read-body.ts";
import { traceFields } from "./upstream/trace-fields.ts";

interface Route {
  Bindings: Env;
  Variables: { names: RequestNames };
}

const codeOfBodyFault = {
  too_large: "request_too_large",
  timed_out: "deadline_exceeded",
  client_gone: "invalid_value",
} as const;

const pass = async (context: Context<Route>): Promise<Response> => {
  const request = context.req.raw;
  const names = context.get("names");
  const { requestId } = names;
  const loaded = await loadConfig(context.env);
  if (!loaded.ok) {
    logError("misconfigured", { ...names, hint: loaded.hint });
    return errorResponse("internal_error", requestId);
  }

  const admission = await admitByKeyHashes(loaded.config.apiKeyHashes)(request.headers);
  if (admission.kind === "refused") {
    logInfo("refused", { ...names, cause: admission.cause });
    return errorResponse(admission.code, requestId);
  }

  const isPost = request.method === "POST";
  if (isPost && !isPlainJson(request.headers)) return errorResponse("unsupported_media_type", requestId);
  const body: BodyResult = isPost ? await readBody(request) : { kind: "read", bytes: new Uint8Array(0) };
  if (body.kind !== "read") {
    return errorResponse(codeOfBodyFault[body.kind], requestId);
  }

  const url = new URL(request.url);
  const deadline = deadlineMs(request.headers.get("x-stainless-timeout"), Date.now());
  return forward(
    loaded.config,
    {
      method: request.method,
      target: `${url.pathname}${url.search}`,
      accept: request.headers.get("accept"),
      trace: traceFields(request.headers),
      body: body.bytes,
      contentDigest: await contentDigest(body.bytes),
      // The only x-lockgate-* headers that reach an agent: a client's own are never copied.
      lockgate: {
        requestId,
        keyId: admission.keyId,
        tenantSalt: admission.tenantSalt,
        ...(deadline === undefined ? {} : { deadlineMs: deadline }),
      },
    },
    request.signal,
    names,
  );
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
const edge = new Hono<Route>({ getPath: (request) => new URL(request.url).pathname });

edge.use(async (context, next) => {
  context.set("names", {
    requestId: requestIdOf(crypto.getRandomValues(new Uint8Array(REQUEST_ID_BYTES))),
    clientRequestId: clientRequestId(context.req.header("x-request-id")),
  });
  await next();
  if (context.res.status >= 400) await discardBody(context.req.raw);
});

edge
  .get("/healthz", (context) =>
    Response.json({ status: "ok" }, { headers: { "x-request-id": context.get("names").requestId } }),
  )
  .all(only(GET));
edge.post("/v1/chat/completions", pass).all(only(POST));
edge.get("/v1/models", pass).all(only(GET));
edge.get("/v1/models/:id{.+}", pass).all(only(GET));

edge.notFound((context) => errorResponse("not_found", context.get("names").requestId));
edge.onError((error, context) => {
  const names = context.get("names");
  logError("unexpected", { ...names, cause: error.message });
  return errorResponse("internal_error", names.requestId);
});

export { KeyGuard } from "./admit/key-guard.ts";
export { Fleet } from "./fleet/fleet-object.ts";
export default edge;
