import test from "ava";
import fc from "fast-check";
import {
  inspectBody,
  MAX_CONVERSATION_CHARS,
  MAX_JSON_DEPTH,
  MAX_JSON_VALUES,
  shapeFault,
} from "../../edge/src/upstream/inspect-body.ts";
import { judgeStatus, outcomeOfStatus } from "../../edge/src/upstream/judge-status.ts";
import { parseChatRequest } from "../../gpu-agent/src/http/chat-request.ts";
import { dispatchFault } from "../../gpu-agent/src/http/dispatched-model.ts";

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);
const inspect = (text: string) => inspectBody(bytesOf(text));
const nested = (depth: number): string => `${'{"a":['.repeat(depth / 2)}1${"]}".repeat(depth / 2)}`;
const conversation = (body: object): string => {
  const inspected = inspect(JSON.stringify(body));
  return inspected.ok ? inspected.view.conversation : "";
};
const user = (content: unknown) => ({ role: "user", content });

test("model and bound of the answer are read; what is none of either is undefined", (t) => {
  t.like(inspect('{"model":"m","max_tokens":5}'), { ok: true, view: { model: "m", maxTokens: 5 } });
  t.like(inspect('{"max_completion_tokens":7,"max_tokens":5}'), { view: { model: undefined, maxTokens: 7 } });
  t.like(inspect('{"max_completion_tokens":null,"max_tokens":5}'), { view: { maxTokens: 5 } });
  for (const bad of ['"5"', "-1", "0", "1.5", "1e400", "[5]"]) {
    t.like(inspect(`{"model":["m"],"max_tokens":${bad}}`), { view: { model: undefined, maxTokens: undefined } }, bad);
  }
});

test("what is no JSON object in UTF-8 is refused", (t) => {
  for (const [text, cause] of [
    ["", "not_json"],
    ["{", "not_json"],
    ['{"a":1}x', "not_json"],
    ["[]", "not_an_object"],
    ["null", "not_an_object"],
    ['"text"', "not_an_object"],
  ] as const) {
    t.deepEqual(inspect(text), { ok: false, code: "invalid_json", cause }, text);
  }
  t.like(inspectBody(Uint8Array.from([0x7b, 0xff, 0x7d])), { ok: false, cause: "not_utf8" });
});

test("nesting at the limit passes, one level more is refused, and a million levels cost one pass", (t) => {
  t.true(inspect(nested(MAX_JSON_DEPTH)).ok);
  t.like(inspect(`[${nested(MAX_JSON_DEPTH)}]`), { ok: false, cause: "too_deep" });
  t.like(inspect("[".repeat(1_000_000)), { ok: false, cause: "too_deep" });
});

test("as many values as are allowed pass, one more is refused before anything is built; commas in a string are none", (t) => {
  // The object and the array are values too; the first item of each is counted by its opening.
  const list = (items: number) => `{"a":[${Array(items).fill("1").join(",")}]}`;
  t.true(inspect(list(MAX_JSON_VALUES - 2)).ok);
  t.like(inspect(list(MAX_JSON_VALUES - 1)), { ok: false, cause: "too_many_values" });
  t.true(inspect(`{"a":"${",".repeat(MAX_JSON_VALUES + 1)}"}`).ok);
});

test("brackets inside strings do not count, however they are escaped", (t) => {
  const text = (content: string) => `{"a":"${content}"}`;
  t.true(inspect(text("[".repeat(1000))).ok);
  t.true(inspect(text(`\\"${"{".repeat(1000)}`)).ok);
  t.true(inspect(text("\\\\")).ok);
  t.like(inspect(`{"a":"\\\\","b":${nested(MAX_JSON_DEPTH)}}`), { ok: false, cause: "too_deep" });
});

test("the depth that is found is the depth that is there", (t) => {
  const seed = Number(process.env.LOCKGATE_SEED ?? Date.now());
  t.log(`LOCKGATE_SEED=${seed}`);
  const depthOf = (value: unknown): number =>
    typeof value === "object" && value !== null ? 1 + Math.max(0, ...Object.values(value).map(depthOf)) : 0;
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const bytes = bytesOf(JSON.stringify(value));
      const depth = depthOf(value);
      const fault = (limit: number) => shapeFault(bytes, limit, MAX_JSON_VALUES);
      return fault(depth) === undefined && (depth === 0 || fault(depth - 1) === "too_deep");
    }),
    { seed },
  );
  t.pass();
});

test("a conversation is known by its beginning: later turns change nothing, another first question does", (t) => {
  const system = { role: "system", content: "Be brief." };
  const first = conversation({ messages: [system, user("one")] });
  t.is(conversation({ messages: [system, user("one"), { role: "assistant", content: "1" }, user("two")] }), first);
  t.not(conversation({ messages: [system, user("two")] }), first);
  t.not(conversation({ messages: [user("one")] }), first);
  t.not(conversation({ prompt: "one" }), conversation({ prompt: "two" }));
  t.not(conversation({ messages: [user([{ type: "text", text: "one" }])] }), conversation({ messages: [user([])] }));
});

test("of a long beginning a bounded part counts, and strange messages throw nothing", (t) => {
  const long = "x".repeat(2 * MAX_CONVERSATION_CHARS);
  t.is(conversation({ messages: [user(long)] }).length, MAX_CONVERSATION_CHARS);
  t.is(conversation({ prompt: long }), conversation({ prompt: `${long}y` }));
  for (const messages of [null, 1, "x", [null], [[]], [{ role: 1 }], [{ role: "user" }]]) {
    t.is(typeof conversation({ messages }), "string");
  }
});

test("field report 13: of a model that comes twice edge and agent see the same one", (t) => {
  for (const model of [
    '"model":"a","model":"b"',
    '"model":"b","mod\\u0065l":"b"',
    '"__proto__":{"model":"a"},"model":"b"',
  ]) {
    const text = `{${model},"messages":[{"role":"user","content":"x"}]}`;
    const edge = inspect(text);
    t.is(edge.ok && edge.view.model, "b");
    const agent = parseChatRequest(bytesOf(text));
    if (agent.ok) t.is(agent.request.model, "b");
    else t.is(agent.problem.code, "unsupported_parameter");
  }
});

test("field report 13: an agent dispatches the model that was signed, and no other", (t) => {
  const fault = (asked: string, signed: string) =>
    dispatchFault(asked, signed, (name) => name === "atlas" || name === "default");
  t.is(fault("atlas", "atlas"), undefined);
  t.is(fault("default", "atlas"), undefined);
  t.is(fault("default", "default"), undefined);
  t.is(fault("nowhere", "nowhere"), undefined, "that model does not exist, which is said elsewhere");
  t.like(fault("other", "atlas"), { code: "invalid_value", param: "model" });
  t.like(fault("atlas", "other"), { code: "invalid_value", param: "model" });
  t.like(fault("atlas", "default"), { code: "invalid_value", param: "model" });
  t.like(fault("default", "other"), { code: "invalid_value", param: "model" });
});

test("what a status means, and what it says about the agent's health", (t) => {
  for (const [status, verdict, outcome] of [
    [200, "answer", "success"],
    [400, "answer", "success"],
    [404, "answer", "success"],
    [408, "answer", "success"],
    [413, "answer", "success"],
    [500, "answer", "failure"],
    [401, "unknown_key", "unknown"],
    [429, "busy", "success"],
    [503, "refusing", "failure"],
    [302, "misled", "unknown"],
    [403, "misled", "unknown"],
    [502, "not_reached", "failure"],
    [504, "not_reached", "failure"],
    [522, "not_reached", "failure"],
    [530, "not_reached", "failure"],
  ] as const) {
    t.is(judgeStatus(status), verdict, String(status));
    t.is(outcomeOfStatus(status), outcome, String(status));
  }
});
