/**
 * What every request has: an id of ours, told in its answer, and what the log and the metrics learn of it: a log with the request's own
 * fields (client's id, trace), its route and its status. A path or an id that a client made up goes into neither as it came.
 */
import { randomBytes, randomUUID } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { clientRequestId, parseTraceparent } from "@lockgate/shared-types";
import type { MiddlewareHandler } from "hono";
import { withFields } from "../log.ts";
import type { AgentEnv, AgentServices } from "./app.ts";

/** The client left before a status was sent; nginx's number for it. */
const CLIENT_GONE = 499;
const SPAN_ID_BYTES = 8;

/** What a path is called: one of the agent's routes, or `other`. */
const routeOf = (path: string, routes: readonly string[]): string =>
  routes.includes(path) ? path : path.startsWith("/v1/models/") ? "/v1/models/{id}" : "other";

/**
 * A request's own fields. The caller's trace goes on with a span of ours (W3C Trace Context, 2.3), `spanId`, under the caller's; the
 * agent calls nobody on a client's behalf, so there is nobody to tell it to.
 */
export const requestFields = (headers: IncomingHttpHeaders, spanId: () => string): Readonly<Record<string, string>> => {
  const { "x-request-id": clientId, traceparent } = headers;
  const trace = typeof traceparent === "string" ? parseTraceparent(traceparent) : undefined;
  return {
    ...(typeof clientId === "string" ? { client_request: clientRequestId(clientId) ?? "" } : {}),
    ...(trace && {
      trace_id: trace.traceId,
      parent_id: trace.parentId,
      span_id: spanId(),
      trace_flags: trace.flags,
    }),
  };
};

/** Goes before every other handler. `routes` are the paths that exist. */
export const observeRequests =
  ({ log, metrics }: Pick<AgentServices, "log" | "metrics">, routes: readonly string[]): MiddlewareHandler<AgentEnv> =>
  async (c, next) => {
    const startedMs = performance.now();
    const { incoming, outgoing } = c.env;
    c.set(
      "log",
      withFields(
        log,
        requestFields(incoming.headers, () => randomBytes(SPAN_ID_BYTES).toString("hex")),
      ),
    );
    c.set("requestId", `req_${randomUUID()}`);
    await next();
    // A handler that writes to the socket itself says so with this header, and nothing else.
    const sentHere = c.res.headers.has("x-hono-already-sent");
    if (!sentHere) {
      c.res.headers.set("x-request-id", c.get("requestId"));
      c.res.headers.set("openai-processing-ms", String(Math.round(performance.now() - startedMs)));
    }
    const status = !sentHere ? c.res.status : outgoing.headersSent ? outgoing.statusCode : CLIENT_GONE;
    const route = routeOf(c.req.path, routes);
    metrics.answered(route, status);
    c.get("log")(status >= 400 ? "info" : "debug", "request_ended", {
      method: c.req.method,
      route,
      status,
      ms: Math.round(performance.now() - startedMs),
    });
  };
