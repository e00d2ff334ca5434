/**
 * The one place where the edge turns an error code into a response.
 *
 * Messages here are fixed sentences: nothing of an exception, an address or a credential gets out. Causes go to the log.
 */
import { type ErrorCode, errorCodes, openAiErrorBody } from "@lockgate/shared-types";

/** What a client is told to wait before it asks again when no agent can take work. */
const RETRY_AFTER_S = 5;

/** Codes that the edge itself answers with; all others come from an agent, whose body passes through untouched. */
export type EdgeErrorCode = Extract<
  ErrorCode,
  | "invalid_api_key"
  | "invalid_json"
  | "invalid_value"
  | "invalid_signature"
  | "permission_denied"
  | "model_not_found"
  | "rate_limit_exceeded"
  | "insufficient_quota"
  | "not_found"
  | "method_not_allowed"
  | "deadline_exceeded"
  | "request_too_large"
  | "unsupported_media_type"
  | "internal_error"
  | "upstream_failed"
  | "overloaded"
  | "upstream_timeout"
>;

const messages: Readonly<Record<EdgeErrorCode, string>> = {
  invalid_api_key: "No valid API key was given. Send one as 'Authorization: Bearer <key>'.",
  invalid_json:
    "The request body must be a JSON object in UTF-8, nested no deeper than 64 levels, with no more than 262144 values.",
  invalid_value: "The request is malformed, or its body broke off.",
  invalid_signature: "This endpoint takes messages that one of its agents has signed.",
  permission_denied: "This API key may not do that.",
  model_not_found: "There is no such model for this API key.",
  rate_limit_exceeded: "This API key has reached one of its limits.",
  insufficient_quota: "This API key has used up its tokens of this month.",
  not_found: "There is no such endpoint.",
  method_not_allowed: "This endpoint does not take this method.",
  deadline_exceeded: "The request body did not arrive in time.",
  request_too_large: "The request's body or its address is too large.",
  unsupported_media_type: "The request body must be plain JSON (content-type: application/json, no content-encoding).",
  internal_error: "The gateway failed. The request id names the failure in its log.",
  upstream_failed: "No GPU agent could be reached.",
  overloaded: "No GPU agent is ready to take the request.",
  upstream_timeout: "The GPU agent did not answer in time.",
};

const extraHeaders = (code: EdgeErrorCode): [string, string][] => {
  if (code === "invalid_api_key") return [["www-authenticate", "Bearer"]];
  if (code === "overloaded") {
    return [
      ["retry-after", String(RETRY_AFTER_S)],
      ["retry-after-ms", String(RETRY_AFTER_S * 1000)],
    ];
  }
  return [];
};

/** Renders `code` as OpenAI's error body with its status; `headers` are added (such as `allow`). */
export const errorResponse = (code: EdgeErrorCode, requestId: string, headers: [string, string][] = []): Response =>
  new Response(JSON.stringify(openAiErrorBody(code, messages[code])), {
    status: errorCodes[code].status,
    headers: [["content-type", "application/json"], ["x-request-id", requestId], ...extraHeaders(code), ...headers],
  });
