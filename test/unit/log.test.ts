import test from "ava";
import { requestFields } from "../../gpu-agent/src/http/observe-requests.ts";
import { MAX_LOGGED_TEXT_CHARS, TurnText } from "../../gpu-agent/src/http/turn-text.ts";
import { createLog, type LogLevel, withFields } from "../../gpu-agent/src/log.ts";

const collect = (level: LogLevel) => {
  const lines: string[] = [];
  const state = { level };
  const log = createLog(
    () => state.level,
    (line) => lines.push(line),
  );
  return { log, state, lines, parsed: () => lines.map((line) => JSON.parse(line) as Record<string, unknown>) };
};

test("a line is one JSON object with level, time, event and fields, and nothing of the machine", (t) => {
  const { log, lines, parsed } = collect("info");
  log("warn", "replica_state", { replica: 0, reason: 'a "b"\nc', none: undefined });
  t.true(lines[0]?.endsWith("\n"));
  t.is(lines[0]?.split("\n").length, 2);
  const { time, ...rest } = parsed()[0] ?? {};
  t.regex(String(time), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  t.deepEqual(rest, { level: "warn", event: "replica_state", replica: 0, reason: 'a "b"\nc' });
});

test("what is below the level is not written, and the level can change between two lines", (t) => {
  const { log, state, parsed } = collect("warn");
  log("info", "a");
  state.level = "debug";
  log("debug", "b");
  state.level = "error";
  log("warn", "c");
  log("error", "d");
  t.deepEqual(
    parsed().map(({ event }) => event),
    ["b", "d"],
  );
});

test("bound fields are in every line, the line's own win, and bindings nest", (t) => {
  const { log, parsed } = collect("info");
  const bound = withFields(withFields(log, { request: "r1", a: 1 }), { a: 2 });
  bound("info", "x", { b: 3 });
  bound("info", "y", { a: 4 });
  t.like(parsed()[0], { request: "r1", a: 2, b: 3 });
  t.like(parsed()[1], { request: "r1", a: 4 });
});

test("what JSON cannot hold is written all the same", (t) => {
  const { log, parsed } = collect("info");
  const cycle: Record<string, unknown> = {};
  cycle.itself = cycle;
  log("info", "odd", { cycle, big: 2n ** 70n, when: Number.NaN });
  t.is(parsed()[0]?.event, "odd");
});

test("a request's fields: the client's id cut and cleaned, its trace with a span of ours", (t) => {
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  t.deepEqual(
    requestFields({ "x-request-id": `a b${"x".repeat(100)}`, traceparent }, () => "00000000000000aa"),
    {
      client_request: `a?b${"x".repeat(61)}`,
      trace_id: "0af7651916cd43dd8448eb211c80319c",
      parent_id: "b7ad6b7169203331",
      span_id: "00000000000000aa",
      trace_flags: "01",
    },
  );
});

test("without a trace, or with one that is malformed, there is no span", (t) => {
  const never = () => {
    throw new Error("a span id was drawn");
  };
  t.deepEqual(requestFields({}, never), {});
  t.deepEqual(requestFields({ traceparent: "00-0-0-0" }, never), {});
});

test("the text of a turn is cut at its bound, and the client gets all of it", (t) => {
  const text = new TurnText();
  const sent: string[] = [];
  const sink = text.sink({ text: (piece) => sent.push(piece), flush: () => undefined });
  const piece = "x".repeat(MAX_LOGGED_TEXT_CHARS - 1);
  sink.text(piece);
  sink.text("abc");
  sink.text("d");
  const { messages, answer } = text.fields([{ role: "user", content: "y".repeat(2 * MAX_LOGGED_TEXT_CHARS) }]);
  t.is(answer, `${piece}a`);
  t.is(messages?.length, MAX_LOGGED_TEXT_CHARS);
  t.is(sent.join(""), `${piece}abcd`);
});
