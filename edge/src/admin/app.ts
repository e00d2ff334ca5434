/**
 * The admin API as one app under /admin/v1: its routes, and its OpenAPI document, made of the same schemas that parse requests and answers.
 *
 * @hono/zod-openapi because a route, its check and its documentation are then one thing that cannot drift apart. The app knows no binding of
 * the worker: ports and the asker are passed in with each request. Who may ask is settled before (admin.ts).
 */
import { OpenAPIHono } from "@hono/zod-openapi";
import { errorCodes, openAiErrorBody } from "@lockgate/shared-types";
import { HTTPException } from "hono/http-exception";
import { issueText, pathText } from "../issue-text.ts";
import { addAgentRoutes } from "./agents.ts";
import type { AdminApp, AdminBindings } from "./app-types.ts";
import { addKeyRoutes } from "./keys.ts";
import { addReportRoutes } from "./reports.ts";
import { addTenantRoutes } from "./tenants.ts";

export const ADMIN_PATH = "/admin/v1";

const answer = (code: "invalid_json" | "invalid_value" | "not_found" | "overloaded", message: string, param?: string) =>
  Response.json(openAiErrorBody(code, message, param ?? null), { status: errorCodes[code].status });

/** Builds the app. */
export const createAdminApp = (): AdminApp => {
  const app = new OpenAPIHono<AdminBindings>({
    defaultHook: (result) => {
      if (result.success) return undefined;
      const path = pathText(result.error.issues[0]?.path ?? []);
      return answer("invalid_value", issueText(result.error), path === "" ? undefined : path);
    },
  }).basePath(ADMIN_PATH);

  app.openAPIRegistry.registerComponent("securitySchemes", "admin", {
    type: "http",
    scheme: "bearer",
    description: "The admin credential. No API key opens anything here.",
  });
  addKeyRoutes(app);
  addTenantRoutes(app);
  addAgentRoutes(app);
  addReportRoutes(app);
  app.doc31("/openapi.json", {
    openapi: "3.1.0",
    info: {
      title: "Lockgate admin API",
      version: "1",
      description: "Keys, tenants, agents, usage and the audit log. Times are Unix ms, days and months UTC.",
    },
    security: [{ admin: [] }],
  });

  app.notFound(() => answer("not_found", "There is no such endpoint."));
  app.onError((error, { env: { ports, asker } }) => {
    if (error instanceof HTTPException && error.status === 400) return answer("invalid_json", "The body is not JSON.");
    // What fails here is the database or an object; every action may be repeated.
    ports.logError("admin_failed", { requestId: asker.requestId, cause: error.message });
    return answer("overloaded", "Part of the edge did not answer. Try again; repeating is harmless.");
  });
  return app;
};
