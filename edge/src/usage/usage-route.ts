/** POST /internal/v1/usage: agents deliver their usage records here, each at least once. Answers 204 when all of a batch are booked. */
import { errorCodes, openAiErrorBody } from "@lockgate/shared-types";
import { isGenuineKeyId } from "../admit/api-key-format.ts";
import type { Config } from "../config.ts";
import type { Env } from "../env.ts";
import { errorResponse } from "../errors.ts";
import { verifyAgentMessage } from "../internal/agent-message.ts";
import { logError, logInfo, type RequestNames } from "../log.ts";
import { ledgerOf } from "./ledger.ts";
import { takeUsage } from "./take-usage.ts";

/** Answers one batch. */
export const answerUsage = async (
  request: Request,
  env: Env,
  config: Config,
  names: RequestNames,
): Promise<Response> => {
  const message = await verifyAgentMessage(request, env, config);
  if (!message.ok) {
    logInfo("usage_refused", { ...names, cause: message.cause });
    return errorResponse(message.code, names.requestId);
  }
  const about = { ...names, agent: message.agent.name };
  const ports = {
    ledger: ledgerOf(env.LEDGER),
    guardOf: (keyId: string) => env.KEY_GUARDS.get(env.KEY_GUARDS.idFromName(keyId)),
    isGenuineKeyId: (keyId: string) => isGenuineKeyId(config.keyIdKey, keyId),
  };
  const verdict = await takeUsage(message.bytes, message.agent.name, ports, Date.now());
  switch (verdict.kind) {
    case "booked":
      return new Response(null, { status: 204, headers: { "x-request-id": names.requestId } });
    case "malformed":
      // The agent takes the records one by one then, and puts the one at fault aside.
      logError("usage_malformed", { ...about, rule: verdict.rule });
      return Response.json(openAiErrorBody(verdict.code, verdict.rule), {
        status: errorCodes[verdict.code].status,
        headers: { "x-request-id": names.requestId },
      });
    case "failed":
      logError("usage_not_booked", { ...about, step: verdict.step, cause: verdict.cause });
      return errorResponse("overloaded", names.requestId);
  }
};
