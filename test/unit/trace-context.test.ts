import { MAX_TRACESTATE_CHARS, parseTraceparent, passableTracestate } from "@lockgate/shared-types";
import test from "ava";
import { traceFields } from "../../edge/src/upstream/trace-fields.ts";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const PARENT = "b7ad6b7169203331";
const valid = `00-${TRACE}-${PARENT}-01`;

test("a traceparent of version 00 is taken apart", (t) => {
  t.deepEqual(parseTraceparent(valid), { traceId: TRACE, parentId: PARENT, flags: "01" });
});

test("a later version may say more, after a hyphen", (t) => {
  const parsed = { traceId: TRACE, parentId: PARENT, flags: "01" };
  t.deepEqual(parseTraceparent(`cc-${TRACE}-${PARENT}-01`), parsed);
  t.deepEqual(parseTraceparent(`cc-${TRACE}-${PARENT}-01-what-comes`), parsed);
});

for (const [why, header] of [
  ["it is absent", null],
  ["it is empty", ""],
  ["it came twice", `${valid}, ${valid}`],
  ["version 00 goes on", `${valid}-00`],
  ["a later version goes on without a hyphen", `cc-${TRACE}-${PARENT}-01.x`],
  ["a later version goes on with a blank", `cc-${TRACE}-${PARENT}-01-a b`],
  ["its version is ff", `ff-${TRACE}-${PARENT}-01`],
  ["its version is no hex", `0x-${TRACE}-${PARENT}-01`],
  ["its trace id is all zero", `00-${"0".repeat(32)}-${PARENT}-01`],
  ["its parent id is all zero", `00-${TRACE}-${"0".repeat(16)}-01`],
  ["it has upper case", valid.toUpperCase()],
  ["its trace id is short", `00-${TRACE.slice(1)}-${PARENT}-01`],
  ["its flags are long", `00-${TRACE}-${PARENT}-010`],
  ["it has a blank before it", ` ${valid}`],
  ["it has a line break behind it", `${valid}\n`],
  ["it is endless", `cc-${TRACE}-${PARENT}-01-${"x".repeat(1_000)}`],
] as const) {
  test(`a traceparent counts as absent when ${why}`, (t) => {
    t.is(parseTraceparent(header), undefined);
  });
}

test("a tracestate passes whole, without its blanks and empty members", (t) => {
  t.is(
    passableTracestate("rojo=00f067aa0ba902b7 , ,congo=t61rcWkgMzE,a@b=c"),
    "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE,a@b=c",
  );
});

test("a tracestate that is absent or malformed is none", (t) => {
  for (const header of [null, undefined, "", " , ", "a", "a=", "A=b", "a=b=c", "a=\u00e9", "=b", "a=b,c", "a b=c"]) {
    t.is(passableTracestate(header), undefined, String(header));
  }
  const members = Array.from({ length: 33 }, (_, at) => `k${at}=v`);
  t.is(passableTracestate(members.join(",")), undefined, "more members than the standard allows");
  t.is(passableTracestate(members.slice(1).join(",")), members.slice(1).join(","));
});

test("a tracestate that is too long passes as many of its first members as fit, each whole", (t) => {
  const member = (key: string) => `${key}=${"v".repeat(198)}`;
  const passed = passableTracestate(["a", "b", "c"].map(member).join(","));
  t.is(passed, ["a", "b"].map(member).join(","));
  t.true((passed?.length ?? 0) <= MAX_TRACESTATE_CHARS);
  t.is(passableTracestate(`${member("a")}${"v".repeat(400)}`), undefined);
});

test("the edge passes a trace on as it came, and no tracestate without a valid traceparent", (t) => {
  const fields = (headers: Record<string, string>) => traceFields(new Headers(headers));
  t.deepEqual(fields({ traceparent: valid }), [["traceparent", valid]]);
  t.deepEqual(fields({ traceparent: valid, tracestate: "a=b" }), [
    ["traceparent", valid],
    ["tracestate", "a=b"],
  ]);
  t.deepEqual(fields({ traceparent: valid, tracestate: "A" }), [["traceparent", valid]]);
  t.deepEqual(fields({ traceparent: "00-no", tracestate: "a=b" }), []);
  t.deepEqual(fields({ tracestate: "a=b" }), []);
});
