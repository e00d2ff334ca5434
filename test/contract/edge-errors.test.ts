import { type ErrorCode, errorCodes, openAiErrorBody } from "@lockgate/shared-types";
import test from "ava";
import { type EdgeErrorCode, errorResponse } from "../../edge/src/errors.ts";

/** What a client is shown for every code that the edge answers with: a change here is a change of the public contract. */
const contract: Readonly<Record<EdgeErrorCode, readonly [status: number, type: string, headers: readonly string[]]>> = {
  invalid_api_key: [401, "invalid_request_error", ["www-authenticate"]],
  invalid_json: [400, "invalid_request_error", []],
  invalid_value: [400, "invalid_request_error", []],
  invalid_signature: [401, "invalid_request_error", []],
  permission_denied: [403, "invalid_request_error", []],
  model_not_found: [404, "invalid_request_error", []],
  not_found: [404, "invalid_request_error", []],
  method_not_allowed: [405, "invalid_request_error", []],
  deadline_exceeded: [408, "timeout_error", []],
  request_too_large: [413, "invalid_request_error", []],
  unsupported_media_type: [415, "invalid_request_error", []],
  rate_limit_exceeded: [429, "rate_limit_error", []],
  insufficient_quota: [429, "insufficient_quota", []],
  internal_error: [500, "server_error", []],
  upstream_failed: [502, "server_error", []],
  overloaded: [503, "server_error", ["retry-after", "retry-after-ms"]],
  upstream_timeout: [504, "server_error", []],
};

for (const [code, [status, type, headers]] of Object.entries(contract) as [
  EdgeErrorCode,
  (typeof contract)[EdgeErrorCode],
][]) {
  test(`${code} is a ${status} with OpenAI's error body`, async (t) => {
    const response = errorResponse(code, "req_1");
    t.is(response.status, status);
    t.is(response.headers.get("content-type"), "application/json");
    t.is(response.headers.get("x-request-id"), "req_1");
    t.deepEqual([...response.headers.keys()].sort(), ["content-type", "x-request-id", ...headers].sort());
    const { error, ...rest } = (await response.json()) as { error: Record<string, unknown> };
    t.deepEqual(rest, {});
    t.deepEqual(Object.keys(error).sort(), ["code", "message", "param", "type"]);
    t.like(error, { code, type, param: null });
    t.regex(String(error.message), /^[A-Z].+\.$/);
  });
}

test("a wait told in seconds and in milliseconds is the same, whole and at least 1 s", (t) => {
  const { headers } = errorResponse("overloaded", "req_1");
  const seconds = Number(headers.get("retry-after"));
  t.true(Number.isInteger(seconds) && seconds >= 1);
  t.is(Number(headers.get("retry-after-ms")), seconds * 1000);
});

test("extra headers are added to an error", (t) => {
  t.is(errorResponse("method_not_allowed", "req_1", [["allow", "GET"]]).headers.get("allow"), "GET");
});

test("every code of the table has a type for both APIs and an error status", (t) => {
  for (const [code, entry] of Object.entries(errorCodes)) {
    t.true(entry.status >= 400 && entry.status < 600, code);
    t.deepEqual(openAiErrorBody(code as ErrorCode, "m", "p"), {
      error: { message: "m", type: entry.type, param: "p", code },
    });
  }
});
