/**
 * Renders an error of the agent for OpenAI routes: code to status, headers and body, in this one place.
 *
 * Deliberately absent: what went wrong (the caller's message is what the client reads, so it holds no stack, path or address).
 */
import { type ErrorCode, errorCodes, openAiErrorBody } from "@lockgate/shared-types";

export interface HttpError {
  readonly code: ErrorCode;
  /** For the client. */
  readonly message: string;
  /** The request field at fault, e.g. `messages[0].role`. */
  readonly param?: string | null | undefined;
  /** When trying again makes sense, ms; read for 429 and 503 only. Absent: DEFAULT_RETRY_AFTER_MS. */
  readonly retryAfterMs?: number | undefined;
}

export interface RenderedError {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** What a refused client waits where nothing better is known, ms. */
export const DEFAULT_RETRY_AFTER_MS = 1_000;

const retryHeaders = (code: ErrorCode, retryAfterMs: number): Record<string, string> => {
  // A client would try again on any 429; with the budget gone that cannot help.
  if (code === "insufficient_quota") return { "x-should-retry": "false" };
  const waitMs = Math.max(1, Math.ceil(retryAfterMs));
  // RFC 9110, 10.2.3: whole seconds; 0 would mean "at once".
  return { "retry-after": String(Math.ceil(waitMs / 1_000)), "retry-after-ms": String(waitMs) };
};

/** Status, headers and JSON body of an error answer. Every 429 and 503 says when, or that not, to try again. */
export const renderError = ({ code, message, param, retryAfterMs }: HttpError): RenderedError => {
  const { status } = errorCodes[code];
  return {
    status,
    headers: {
      "content-type": "application/json; charset=utf-8",
      "cache-control": "no-store",
      // RFC 9110, 15.5.2: a 401 names the scheme.
      ...(status === 401 ? { "www-authenticate": "Bearer" } : {}),
      ...(status === 429 || status === 503 ? retryHeaders(code, retryAfterMs ?? DEFAULT_RETRY_AFTER_MS) : {}),
    },
    body: JSON.stringify(openAiErrorBody(code, message, param ?? null)),
  };
};
