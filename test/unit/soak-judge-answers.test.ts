/** What the soak takes for right, and what it does not: a mixed-up answer, a false end, a refusal without a reason. */
import test from "ava";
import type { ClientPlan, RequestPlan } from "../soak/client-plans.ts";
import { judgeAnswers, type LifeView } from "../soak/judge-answers.ts";
import type { ReadResponse } from "../soak/response-reader.ts";
import type { ClientEnd } from "../soak/run-client.ts";

const calm: LifeView = { faulted: false, ending: false, cut: false };
const faulted: LifeView = { ...calm, faulted: true };
const killed: LifeView = { faulted: false, ending: true, cut: true };

const request: RequestPlan = {
  method: "POST",
  path: "/v1/chat/completions",
  caller: "local",
  tenant: 0,
  stream: true,
  body: "{}",
  deadlineS: undefined,
  expects: { kind: "text", text: "PT is it.", prefix: false, tokens: 7 },
};
const planOf = (...requests: readonly RequestPlan[]): ClientPlan => ({
  name: "known",
  requests,
  pipelined: true,
  behaviour: { kind: "read" },
});

const event = (json: object): string => `data: ${JSON.stringify(json)}\n\n`;
const chunk = (content: string, finish: string | null = null) =>
  event({ choices: [{ delta: { content }, finish_reason: finish }] });
const DONE = "data: [DONE]\n\n";
const answered = (body: string, status = 200, complete = true): ReadResponse => ({
  status,
  headers: new Map([["x-request-id", "req_1"]]),
  body,
  complete,
});
const endOf = (responses: readonly ReadResponse[], how: ClientEnd["how"] = "read"): ClientEnd => ({
  responses,
  sent: Math.max(1, responses.length),
  how,
});
const problemsOf = (response: ReadResponse, life: LifeView = calm, plan = request, how: ClientEnd["how"] = "read") =>
  judgeAnswers(planOf(plan), endOf([response], how), life).problems;

const whole = `: keep-alive\n\n${chunk("PT ")}${chunk("is it.")}${chunk("", "stop")}${DONE}`;

test("the whole answer is right, and its turn was seen with the count that it must have", (t) => {
  const verdict = judgeAnswers(planOf(request), endOf([answered(whole)]), calm);
  t.deepEqual(verdict.problems, []);
  t.deepEqual(verdict.seen, [{ requestId: "req_1", completionTokens: 7 }]);
});

test("another turn's text, a wrong count and a wrong finish are problems", (t) => {
  t.regex(problemsOf(answered(chunk("UA is it.", "stop") + DONE)).join(), /instead of 'PT is it\.'/);
  const usage = event({ choices: [], usage: { completion_tokens: 8 } });
  t.deepEqual(problemsOf(answered(chunk("PT is it.", "stop") + usage + DONE)), ["8 tokens instead of 7"]);
  t.deepEqual(problemsOf(answered(chunk("PT is it.", "length") + DONE)), ["finish length instead of stop"]);
});

test("a stream that ends without [DONE], behind it or inside an event is a problem whatever was done to the agent", (t) => {
  for (const life of [calm, faulted]) {
    t.deepEqual(problemsOf(answered(chunk("PT is it.", "stop")), life), ["a stream ends without [DONE] or error"]);
    t.deepEqual(problemsOf(answered(whole + chunk("more")), life), ["events behind [DONE]"]);
    t.deepEqual(problemsOf(answered(whole.slice(0, -1)), life), ["a stream ends inside an event"]);
  }
});

test("a turn may be lost where a replica was, and nowhere else", (t) => {
  const error = { error: { message: "The replica was lost.", code: "overloaded" } };
  const inStream = answered(chunk("PT ") + event(error));
  t.deepEqual(problemsOf(inStream), ["in-stream error overloaded"]);
  t.deepEqual(problemsOf(inStream, faulted), []);
  const refused = answered(JSON.stringify(error), 503);
  t.regex(problemsOf(refused).join(), /503 overloaded/);
  t.deepEqual(problemsOf(refused, faulted), []);
  const inside = answered(JSON.stringify({ error: { message: "Oh.", code: "internal_error" } }), 500);
  t.regex(problemsOf(inside, faulted).join(), /500 internal_error/);
});

test("a deadline counts only for who named one, and a refusal must say why in its body", (t) => {
  const late = answered(JSON.stringify({ error: { message: "Late.", code: "deadline_exceeded" } }), 408);
  t.regex(problemsOf(late).join(), /408/);
  t.deepEqual(problemsOf(late, calm, { ...request, deadlineS: 1 }), []);
  t.deepEqual(problemsOf(answered("", 503), faulted), ["a 503 without an error in its body"]);
});

test("an answer that breaks off needs an agent that was cut, or a client that went", (t) => {
  const half = answered(chunk("PT "), 200, false);
  t.regex(problemsOf(half, faulted, request, "lost").join(), /breaks off/);
  t.deepEqual(problemsOf(half, killed, request, "lost"), []);
  t.deepEqual(problemsOf(half, calm, request, "left"), []);
});

test("an end that was read is seen also where the connection broke behind it", (t) => {
  const verdict = judgeAnswers(planOf(request), endOf([answered(whole, 200, false)], "lost"), killed);
  t.is(verdict.seen.length, 1);
});

test("a pipelined answer may be cut off while it waits behind another, the first one may not", (t) => {
  const problems = (responses: readonly ReadResponse[], pipelined: boolean) => {
    const plan = { ...planOf(request, request), pipelined };
    return judgeAnswers(plan, { responses, sent: 2, how: "lost" }, calm).problems;
  };
  t.deepEqual(problems([answered(whole)], true), []);
  t.deepEqual(problems([answered(whole)], false), ["no answer"]);
  t.deepEqual(problems([], true), ["no answer"]);
});

test("no answer, a client that hangs, and a stranger who is let in are problems", (t) => {
  t.deepEqual(judgeAnswers(planOf(request), { responses: [], sent: 1, how: "lost" }, calm).problems, ["no answer"]);
  t.deepEqual(judgeAnswers(planOf(request), { responses: [], sent: 1, how: "lost" }, killed).problems, []);
  t.true(judgeAnswers(planOf(request), { responses: [], sent: 1, how: "hung" }, killed).problems.includes("hung"));
  const stranger: RequestPlan = {
    ...request,
    caller: "stranger",
    expects: { kind: "status", status: 401, code: null },
  };
  t.deepEqual(problemsOf(answered(whole), faulted, stranger), ["200 instead of 401"]);
});
