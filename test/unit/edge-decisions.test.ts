import { clientRequestId, deadlineMs, readApiKey } from "@lockgate/shared-types";
import test from "ava";
import { requestIdOf } from "../../edge/src/request-id.ts";
import { isPlainJson } from "../../edge/src/upstream/media-type.ts";
import { clientHeaders } from "../../edge/src/upstream/response-headers.ts";

test("an API key is read from one header, or from two that agree", (t) => {
  const read = (headers: Record<string, string>) =>
    readApiKey(headers.authorization ?? null, headers["x-api-key"] ?? null);
  t.deepEqual(read({ authorization: "bearer k1" }), { ok: true, secret: "k1" });
  t.deepEqual(read({ "x-api-key": "k1" }), { ok: true, secret: "k1" });
  t.deepEqual(read({ authorization: "Bearer k1", "x-api-key": "k1" }), { ok: true, secret: "k1" });
  t.deepEqual(read({ authorization: "Bearer k1", "x-api-key": "k2" }), { ok: false, fault: "two_credentials" });
  t.deepEqual(read({ authorization: "Basic k1", "x-api-key": "k1" }), { ok: false, fault: "wrong_scheme" });
  t.deepEqual(read({ authorization: "Bearer k1, Bearer k1" }), { ok: false, fault: "two_credentials" });
  t.deepEqual(read({ "x-api-key": "" }), { ok: false, fault: "malformed" });
  t.deepEqual(read({}), { ok: false, fault: "missing" });
});

test("a deadline is a sensible number of seconds from now, anything else is none", (t) => {
  t.is(deadlineMs("1.5", 1000), 2500);
  t.is(deadlineMs("600", 0), 600_000);
  for (const header of [null, "", "0", "-1", "soon", "1e3", "NaN", "999999", "1.5.5"])
    t.is(deadlineMs(header, 0), undefined, String(header));
});

test("plain JSON is JSON by name, not encoded", (t) => {
  const plain = (headers: Record<string, string>) => isPlainJson(new Headers(headers));
  t.true(plain({ "content-type": "application/json" }));
  t.true(plain({ "content-type": "APPLICATION/json ; charset=utf-8", "content-encoding": "identity" }));
  t.false(plain({}));
  t.false(plain({ "content-type": "text/plain" }));
  t.false(plain({ "content-type": "application/json", "content-encoding": "gzip" }));
});

test("only listed response headers pass, and the request id is the edge's", (t) => {
  const headers = clientHeaders(
    new Headers({
      "content-type": "text/event-stream; charset=utf-8",
      "content-encoding": "gzip",
      "set-cookie": "a=b",
      server: "node",
      "x-request-id": "theirs",
      "x-ratelimit-remaining-tokens": "5",
      "retry-after": "1",
    }),
    "req_1",
  );
  t.deepEqual([...headers.keys()].sort(), [
    "content-encoding",
    "content-type",
    "retry-after",
    "x-ratelimit-remaining-tokens",
    "x-request-id",
  ]);
  t.is(headers.get("x-request-id"), "req_1");
  t.is(headers.get("content-encoding"), "identity");
});

test("request ids are hex of what was drawn; a client's is cut and cleaned for the log", (t) => {
  t.is(requestIdOf(Uint8Array.from([0, 255, 16])), "req_00ff10");
  t.is(clientRequestId(null), undefined);
  t.is(clientRequestId("a b\u00ff"), "a?b?");
  t.is(clientRequestId("x".repeat(1000))?.length, 64);
});
