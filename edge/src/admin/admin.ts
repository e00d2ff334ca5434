/**
 * The door of the admin API: who asks, how long the body may be, and the request's id on every answer. What is behind it is app.ts.
 *
 * Without its credential an answer says nothing, and without ADMIN_TOKEN_HASH there is no admin API at all. Every body is read before it is
 * judged, up to a bound, so that its sender gets to read why.
 */
import { type ErrorCode, errorCodes, openAiErrorBody } from "@lockgate/shared-types";
import { loadConfig } from "../config.ts";
import type { Env } from "../env.ts";
import { logError, logInfo, type RequestNames } from "../log.ts";
import { isPlainJson } from "../upstream/media-type.ts";
import { readBody } from "../upstream/read-body.ts";
import type { AdminApp } from "./app-types.ts";
import { adminAccess } from "./credential.ts";
import { portsOfEnv } from "./ports-of-env.ts";

/** No body that is meant has a tenth of it. */
export const MAX_ADMIN_BODY_BYTES = 64 * 1024;

let app: AdminApp | undefined;

/** Built for the first request that may see it: an isolate that serves clients alone never pays for it. */
const loadApp = async (): Promise<AdminApp> => {
  if (app !== undefined) return app;
  const { createAdminApp } = await import("./app.ts");
  app = createAdminApp();
  return app;
};

const errorAnswer = (code: ErrorCode, message: string, headers: Readonly<Record<string, string>> = {}): Response =>
  Response.json(openAiErrorBody(code, message), { status: errorCodes[code].status, headers });

const notThere = (): Response => errorAnswer("not_found", "There is no such endpoint.");

const answer = async (request: Request, env: Env, names: RequestNames): Promise<Response> => {
  const access = await adminAccess(env.ADMIN_TOKEN_HASH, request.headers.get("authorization"));
  switch (access.kind) {
    case "absent":
      return notThere();
    case "misconfigured":
      logError("misconfigured", { ...names, hint: "ADMIN_TOKEN_HASH is not a SHA-256 in lower-case hex" });
      return notThere();
    case "refused":
      logInfo("admin_refused", { ...names, cause: access.cause });
      return errorAnswer("invalid_api_key", "Not the admin credential. Send it as 'Authorization: Bearer <token>'.", {
        "www-authenticate": "Bearer",
      });
    case "allowed":
  }
  const loaded = await loadConfig(env);
  if (!loaded.ok) {
    logError("misconfigured", { ...names, hint: loaded.hint });
    return errorAnswer("internal_error", "The edge is misconfigured. The request id names the fault in its log.");
  }
  const body = await readBody(request);
  if (body.kind === "timed_out") return errorAnswer("deadline_exceeded", "The request body did not arrive in time.");
  if (body.kind === "client_gone") return errorAnswer("invalid_value", "The request body broke off.");
  if (body.kind !== "read" || body.bytes.length > MAX_ADMIN_BODY_BYTES) {
    return errorAnswer("request_too_large", `The request body has more than ${MAX_ADMIN_BODY_BYTES} bytes.`);
  }
  // What a GET carries means nothing (RFC 9110 section 9.3.1), and a Request would not take it.
  const hasBody = body.bytes.length > 0 && !["GET", "HEAD"].includes(request.method);
  if (hasBody && !isPlainJson(request.headers)) {
    return errorAnswer(
      "unsupported_media_type",
      "The request body must be plain JSON (content-type: application/json).",
    );
  }
  const asked = new Request(request.url, {
    method: request.method,
    headers: hasBody ? { "content-type": "application/json" } : {},
    ...(hasBody ? { body: body.bytes } : {}),
  });
  const asker = { actor: access.actor, requestId: names.requestId, nowMs: Date.now() };
  const response = await (await loadApp()).fetch(asked, {
    ports: portsOfEnv(env, loaded.config.keyIdKey, loaded.config.agents),
    asker,
  });
  // Who only looks leaves no line: an operator's screen may look each second.
  if (request.method !== "GET" || response.status >= 400)
    logInfo("admin_answered", { ...names, actor: asker.actor, method: request.method, status: response.status });
  return response;
};

/** Answers a request to /admin. */
export const answerAdmin = async (request: Request, env: Env, names: RequestNames): Promise<Response> => {
  const response = await answer(request, env, names);
  response.headers.set("x-request-id", names.requestId);
  response.headers.set("cache-control", "no-store");
  return response;
};
