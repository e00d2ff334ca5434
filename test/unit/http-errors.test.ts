import { type ErrorCode, errorCodes } from "@lockgate/shared-types";
import test from "ava";
import { renderError } from "../../gpu-agent/src/http/errors.ts";

const codes = Object.keys(errorCodes).filter((code): code is ErrorCode => Object.hasOwn(errorCodes, code));

test("every code renders with its status and a body that names it", (t) => {
  for (const code of codes) {
    const { status, headers, body } = renderError({ code, message: "why", param: "stop[0]" });
    t.is(status, errorCodes[code].status);
    t.is(headers["content-type"], "application/json; charset=utf-8");
    t.deepEqual(JSON.parse(body), { error: { message: "why", type: errorCodes[code].type, param: "stop[0]", code } });
  }
});

test("every 429 and 503 says when to try again, and only those", (t) => {
  for (const code of codes) {
    const { status, headers } = renderError({ code, message: "why" });
    const saysWhen = headers["retry-after"] !== undefined && headers["retry-after-ms"] !== undefined;
    t.is(saysWhen, (status === 429 || status === 503) && code !== "insufficient_quota", code);
  }
});

test("a wait is rounded up to whole seconds and is never 0", (t) => {
  const waits: ReadonlyArray<readonly [ms: number | undefined, seconds: string, exact: string]> = [
    [undefined, "1", "1000"],
    [0, "1", "1"],
    [-5, "1", "1"],
    [0.2, "1", "1"],
    [1_000, "1", "1000"],
    [1_000.5, "2", "1001"],
    [61_000, "61", "61000"],
  ];
  for (const [retryAfterMs, seconds, exact] of waits) {
    const { headers } = renderError({ code: "overloaded", message: "busy", retryAfterMs });
    t.deepEqual([headers["retry-after"], headers["retry-after-ms"]], [seconds, exact]);
  }
});

test("an exhausted budget tells clients not to try again", (t) => {
  const { headers } = renderError({ code: "insufficient_quota", message: "spent", retryAfterMs: 5_000 });
  t.is(headers["x-should-retry"], "false");
  t.is(headers["retry-after"], undefined);
});

test("a 401 names the scheme, and no other status does", (t) => {
  for (const code of codes) {
    const { status, headers } = renderError({ code, message: "why" });
    t.is(headers["www-authenticate"], status === 401 ? "Bearer" : undefined);
  }
});

test("an error without a field has param null", (t) => {
  t.deepEqual(JSON.parse(renderError({ code: "not_found", message: "no such route" }).body), {
    error: { message: "no such route", type: "invalid_request_error", param: null, code: "not_found" },
  });
});
