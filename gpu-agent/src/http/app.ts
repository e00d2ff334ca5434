/**
 * The agent's HTTP API as a route table, in the order a request takes: health, who are you, what do you want. Streams are written straight
 * to Node's response (chat-completions.ts); everything else is a small JSON answer.
 */
import type { HttpBindings } from "@hono/node-server";
import { deadlineMs, type ErrorCode } from "@lockgate/shared-types";
import { Hono, type MiddlewareHandler } from "hono";
import { authenticate } from "../auth/authenticate.ts";
import type { LocalKeyCheck } from "../auth/local-key.ts";
import type { RequestVerifier } from "../auth/verify-request.ts";
import { type Log, withFields } from "../log.ts";
import type { AgentMetrics } from "../metrics/agent-metrics.ts";
import type { ServedModel } from "../models/served-model.ts";
import type { OpenTurn } from "../replicas/owned-turn.ts";
import type { ReplicaPool } from "../replicas/pool.ts";
import type { AdmissionQueue } from "../turn/admission-queue.ts";
import type { Pace } from "../turn/pace.ts";
import type { UsageFigures } from "../usage/usage-figures.ts";
import type { UsageMeter } from "../usage/usage-meter.ts";
import { chatCompletions } from "./chat-completions.ts";
import { renderError } from "./errors.ts";
import { observeRequests } from "./observe-requests.ts";
import { agentStatus } from "./status.ts";

export interface AgentServices {
  readonly pool: ReplicaPool;
  readonly queue: AdmissionQueue;
  readonly pace: Pace;
  /** Ownership scheme of the turns. */
  readonly open: OpenTurn;
  readonly model: ServedModel;
  readonly verifier: RequestVerifier;
  readonly checkLocalKey: LocalKeyCheck;
  readonly writeStallMs: number;
  readonly log: Log;
  /** Whether the text of turns is logged. */
  readonly logPrompts: boolean;
  readonly metrics: AgentMetrics;
  readonly usage: UsageMeter;
  /** Undefined where no usage is recorded. */
  readonly usageFigures: () => UsageFigures | undefined;
  /** True once the agent drains: no new turn is admitted. */
  readonly draining: () => boolean;
}

/** Who asked, as the middleware found it. */
export interface RequestIdentity {
  /** Internal id: the edge's where one signed, else our own. */
  readonly requestId: string;
  /** Id of the API key that the edge let in; null for the local key. */
  readonly keyId: string | null;
  /** Tenant's partition of the prefix cache. */
  readonly salt: string;
  /** Unix ms; undefined: none. */
  readonly deadlineMs: number | undefined;
  /** Whether the keep-alives of a stream tell its place in the queue. */
  readonly wantsPosition: boolean;
  /** Digest that the body must have; undefined for a local key. */
  readonly contentDigest: string | undefined;
  /** The model that the edge checked the key for; undefined where nobody did. */
  readonly model: string | undefined;
}

export interface AgentEnv {
  readonly Bindings: HttpBindings;
  /** `log` names the request in every line. */
  readonly Variables: { identity: RequestIdentity; requestId: string; log: Log };
}

/** An error answer. */
export const refuse = (error: {
  code: ErrorCode;
  message: string;
  param?: string | null;
  retryAfterMs?: number;
}): Response => {
  const { status, headers, body } = renderError({ param: null, ...error });
  return new Response(body, { status, headers });
};

const pairs = (raw: readonly string[]): [string, string][] => {
  const fields: [string, string][] = [];
  for (let at = 0; at + 1 < raw.length; at += 2) fields.push([raw[at] as string, raw[at + 1] as string]);
  return fields;
};

/** Routes that exist, with the methods they take. */
const methods: Readonly<Record<string, string>> = {
  "/healthz": "GET, HEAD",
  "/readyz": "GET, HEAD",
  "/metrics": "GET, HEAD",
  "/v1/models": "GET, HEAD",
  "/v1/status": "GET, HEAD",
  "/v1/chat/completions": "POST",
};

export const createApp = (services: AgentServices): Hono<AgentEnv> => {
  const { pool, model, metrics } = services;
  const app = new Hono<AgentEnv>();
  const modelObject = { id: model.name, object: "model", created: model.created, owned_by: "lockgate" };

  app.use(observeRequests(services, Object.keys(methods)));
  app.get("/healthz", (c) => c.json({ status: "ok" }));
  app.get("/readyz", (c) => {
    const ready = !services.draining() && pool.replicas.some((replica) => replica.engine?.usable);
    return c.json({ status: ready ? "ready" : "not ready" }, ready ? 200 : 503);
  });

  const authenticated: MiddlewareHandler<AgentEnv> = async (c, next) => {
    const { incoming } = c.env;
    const caller = await authenticate(
      services.verifier,
      services.checkLocalKey,
      incoming.method ?? "",
      incoming.url ?? "",
      pairs(incoming.rawHeaders),
    );
    if (!caller.ok) {
      c.get("log")("warn", "request_refused", { reason: caller.reason, detail: caller.detail });
      return refuse({
        code: "invalid_signature",
        message: "This agent takes requests with a valid signature or its local key.",
      });
    }
    const wantsPosition = c.req.header("x-queue-position") === "1";
    c.set(
      "identity",
      caller.kind === "edge"
        ? {
            requestId: caller.lockgate.requestId,
            keyId: caller.lockgate.keyId,
            salt: caller.lockgate.tenantSalt,
            deadlineMs: caller.lockgate.deadlineMs,
            wantsPosition,
            contentDigest: caller.contentDigest,
            model: caller.lockgate.model,
          }
        : {
            requestId: c.get("requestId"),
            keyId: null,
            salt: "",
            deadlineMs: deadlineMs(c.req.header("x-stainless-timeout") ?? null, Date.now()),
            wantsPosition,
            contentDigest: undefined,
            model: undefined,
          },
    );
    c.set("requestId", c.get("identity").requestId);
    c.set("log", withFields(c.get("log"), { request: c.get("requestId") }));
    await next();
  };
  app.use("/v1/*", authenticated);
  app.use("/metrics", authenticated);

  app.get("/metrics", async (c) => c.body(await metrics.text(), 200, { "content-type": metrics.contentType }));
  app.get("/v1/models", (c) => c.json({ object: "list", data: [modelObject] }));
  app.get("/v1/models/:id{.+}", (c) => {
    const id = c.req.param("id");
    if (model.answersTo(id)) return c.json(modelObject);
    return refuse({
      code: "model_not_found",
      message: `The model '${id}' does not exist here. Known: ${model.name}.`,
      param: "model",
    });
  });
  app.get("/v1/status", (c) => c.json(agentStatus(services)));
  app.post("/v1/chat/completions", (c) => chatCompletions(c, services));

  app.notFound((c) => {
    const allowed = methods[c.req.path];
    if (allowed === undefined) return refuse({ code: "not_found", message: `There is no ${c.req.path} here.` });
    const response = refuse({ code: "method_not_allowed", message: `${c.req.path} takes ${allowed}.` });
    response.headers.set("allow", allowed);
    return response;
  });
  app.onError((error, c) => {
    c.get("log")("error", "request_failed", { error: error.stack ?? error.message });
    return refuse({ code: "internal_error", message: "The request failed inside the agent." });
  });
  return app;
};
