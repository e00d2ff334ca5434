/** GET /metrics: everything in Prometheus' text format, for whoever has the admin credential. */

import { adminAccess } from "../admin/credential.ts";
import { causeOf } from "../cause-of.ts";
import type { Config } from "../config.ts";
import type { Env } from "../env.ts";
import { errorResponse } from "../errors.ts";
import { fleetOf } from "../fleet/fleet-object.ts";
import { logError, logInfo, type RequestNames } from "../log.ts";
import { EXPOSITION_TYPE, exposition } from "./exposition.ts";
import { type FleetMetrics, familiesOf } from "./families.ts";
import { tell } from "./hand-over.ts";

/** Answers a scrape. Without an admin credential configured there is no such endpoint. */
export const answerMetrics = async (
  request: Request,
  env: Env,
  config: Config,
  { requestId, clientRequestId }: RequestNames,
): Promise<Response> => {
  const names = { requestId, clientRequestId };
  const access = await adminAccess(env.ADMIN_TOKEN_HASH, request.headers.get("authorization"));
  if (access.kind === "refused") {
    logInfo("admin_refused", { ...names, cause: access.cause });
    return errorResponse("invalid_api_key", requestId);
  }
  if (access.kind !== "allowed") return errorResponse("not_found", requestId);
  // Its own counts first, so that who scrapes a quiet edge sees what has just happened.
  await tell(env);
  let metrics: FleetMetrics;
  try {
    metrics = await fleetOf(env).metrics();
  } catch (error) {
    logError("metrics_not_read", { ...names, cause: causeOf(error) });
    return errorResponse("overloaded", requestId);
  }
  const agents = config.agents.map(({ name }) => name);
  return new Response(exposition(familiesOf(metrics, agents, config.heartbeatStaleMs)), {
    headers: { "content-type": EXPOSITION_TYPE, "x-request-id": requestId },
  });
};
