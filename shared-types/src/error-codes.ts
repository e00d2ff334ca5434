/**
 * The one table of error codes that a client can see, on either service. Pure data: how a code is rendered is each service's own file.
 *
 * `type` is the OpenAI error type, `anthropicType` the one of Anthropic's routes (their API references).
 */

export interface ErrorCodeEntry {
  readonly status: number;
  readonly type: string;
  readonly anthropicType: string;
}

export const errorCodes = {
  invalid_json: { status: 400, type: "invalid_request_error", anthropicType: "invalid_request_error" },
  invalid_value: { status: 400, type: "invalid_request_error", anthropicType: "invalid_request_error" },
  unsupported_parameter: { status: 400, type: "invalid_request_error", anthropicType: "invalid_request_error" },
  context_length_exceeded: { status: 400, type: "invalid_request_error", anthropicType: "invalid_request_error" },
  invalid_api_key: { status: 401, type: "invalid_request_error", anthropicType: "authentication_error" },
  invalid_signature: { status: 401, type: "invalid_request_error", anthropicType: "authentication_error" },
  permission_denied: { status: 403, type: "invalid_request_error", anthropicType: "permission_error" },
  model_not_found: { status: 404, type: "invalid_request_error", anthropicType: "not_found_error" },
  not_found: { status: 404, type: "invalid_request_error", anthropicType: "not_found_error" },
  method_not_allowed: { status: 405, type: "invalid_request_error", anthropicType: "invalid_request_error" },
  deadline_exceeded: { status: 408, type: "timeout_error", anthropicType: "api_error" },
  conflict: { status: 409, type: "invalid_request_error", anthropicType: "invalid_request_error" },
  request_too_large: { status: 413, type: "invalid_request_error", anthropicType: "request_too_large" },
  unsupported_media_type: { status: 415, type: "invalid_request_error", anthropicType: "invalid_request_error" },
  rate_limit_exceeded: { status: 429, type: "rate_limit_error", anthropicType: "rate_limit_error" },
  insufficient_quota: { status: 429, type: "insufficient_quota", anthropicType: "rate_limit_error" },
  internal_error: { status: 500, type: "server_error", anthropicType: "api_error" },
  engine_error: { status: 500, type: "server_error", anthropicType: "api_error" },
  upstream_failed: { status: 502, type: "server_error", anthropicType: "api_error" },
  overloaded: { status: 503, type: "server_error", anthropicType: "overloaded_error" },
  upstream_timeout: { status: 504, type: "server_error", anthropicType: "api_error" },
} as const satisfies Readonly<Record<string, ErrorCodeEntry>>;

export type ErrorCode = keyof typeof errorCodes;

/** The body of an error on OpenAI routes. */
export interface OpenAiErrorBody {
  readonly error: {
    readonly message: string;
    readonly type: string;
    readonly param: string | null;
    readonly code: string;
  };
}

/** Renders a code as OpenAI's error body; `param` names the request field at fault. */
export const openAiErrorBody = (code: ErrorCode, message: string, param: string | null = null): OpenAiErrorBody => ({
  error: { message, type: errorCodes[code].type, param, code },
});
