/**
 * `POST /internal/v1/heartbeat`: an agent tells how it is. It answers 204 once the fleet's table has it; an agent sends the next one whatever
 * the answer was.
 */

import { type Heartbeat, heartbeatSchema } from "@lockgate/shared-types";
import { causeOf } from "../cause-of.ts";
import type { Config } from "../config.ts";
import type { Env } from "../env.ts";
import { errorResponse } from "../errors.ts";
import { fleetOf } from "../fleet/fleet-object.ts";
import { logError, type RequestNames } from "../log.ts";
import { verifyAgentMessage } from "./agent-message.ts";

const parseHeartbeat = (bytes: Uint8Array): Heartbeat | undefined => {
  try {
    const parsed = heartbeatSchema.safeParse(JSON.parse(new TextDecoder().decode(bytes)));
    return parsed.success ? parsed.data : undefined;
  } catch {
    return undefined;
  }
};

export const takeHeartbeat = async (
  request: Request,
  env: Pick<Env, "FLEET">,
  config: Config,
  names: RequestNames,
): Promise<Response> => {
  const message = await verifyAgentMessage(request, env, config);
  if (!message.ok) {
    logError("agent_message_refused", { ...names, cause: message.cause });
    return errorResponse(message.code, names.requestId);
  }
  const agent = message.agent.name;
  const heartbeat = parseHeartbeat(message.bytes);
  if (heartbeat?.agent_id !== agent) {
    logError("heartbeat_malformed", { ...names, agent });
    return errorResponse("invalid_value", names.requestId);
  }
  try {
    await fleetOf(env).beat(agent, heartbeat);
  } catch (error) {
    logError("heartbeat_not_taken", { ...names, agent, cause: causeOf(error) });
    return errorResponse("overloaded", names.requestId);
  }
  return new Response(null, { status: 204, headers: { "x-request-id": names.requestId } });
};
