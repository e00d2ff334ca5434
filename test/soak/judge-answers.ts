/**
 * Whether what a client saw is what it may see: the right text to the letter, the right count, a documented refusal, or a break that has a
 * reason. Pure.
 *
 * A reason is a fault that the soak itself made in this life of the agent; without one nothing may fail.
 */
import { z } from "zod";
import type { ClientPlan, Expectation, RequestPlan } from "./client-plans.ts";
import type { ReadResponse } from "./response-reader.ts";
import type { ClientEnd } from "./run-client.ts";

/** What was done to the agent, from before the client began until it ended. */
export interface LifeView {
  /** A replica was killed or stopped, or the edge was in trouble: turns may be lost or refused. */
  readonly faulted: boolean;
  /** It was asked to end: no new turn is taken. */
  readonly ending: boolean;
  /** It was killed, or told to end at once: connections break. */
  readonly cut: boolean;
}

/** A turn whose end the client has read. */
export interface SeenTurn {
  readonly requestId: string;
  /** Null where the answer does not tell. */
  readonly completionTokens: number | null;
}

export interface Verdict {
  readonly problems: readonly string[];
  readonly seen: readonly SeenTurn[];
  /** Requests by what came of them, for the report. */
  readonly outcomes: readonly string[];
}

const errorSchema = z.object({ error: z.object({ message: z.string().min(1), code: z.string().nullable() }) });
const usageSchema = z.object({ completion_tokens: z.number() });
const bodySchema = z.object({
  choices: z.tuple([
    z.object({ message: z.object({ content: z.string() }), finish_reason: z.enum(["stop", "length"]) }),
  ]),
  usage: usageSchema,
});
const chunkSchema = z.object({
  choices: z.array(
    z.object({ delta: z.object({ content: z.string().optional() }), finish_reason: z.string().nullable() }),
  ),
  usage: usageSchema.nullish(),
});

interface Answer {
  readonly text: string;
  readonly finish: string | null;
  readonly tokens: number | null;
}
type ReadBody =
  | ({ readonly kind: "answer" } & Answer)
  | { readonly kind: "error"; readonly code: string | null }
  | { readonly kind: "broken"; readonly why: string };

const DONE = "data: [DONE]";

/** An event stream as it came to its end. */
const readStream = (body: string): ReadBody => {
  if (!body.endsWith("\n\n")) return { kind: "broken", why: "a stream ends inside an event" };
  let text = "";
  let finish: string | null = null;
  let tokens: number | null = null;
  const events = body.split("\n\n").filter((event) => event !== "" && !event.startsWith(":"));
  for (const [at, event] of events.entries()) {
    if (event === DONE) {
      if (at !== events.length - 1) return { kind: "broken", why: "events behind [DONE]" };
      return { kind: "answer", text, finish, tokens };
    }
    const json: unknown = JSON.parse(event.slice("data: ".length));
    const error = errorSchema.safeParse(json);
    if (error.success) {
      if (at !== events.length - 1) return { kind: "broken", why: "events behind an error" };
      return { kind: "error", code: error.data.error.code };
    }
    const { choices, usage } = chunkSchema.parse(json);
    text += choices[0]?.delta.content ?? "";
    finish = choices[0]?.finish_reason ?? finish;
    tokens = usage?.completion_tokens ?? tokens;
  }
  return { kind: "broken", why: "a stream ends without [DONE] or error" };
};

const readJson = (body: string): ReadBody => {
  const { choices, usage } = bodySchema.parse(JSON.parse(body));
  const [{ message, finish_reason }] = choices;
  return { kind: "answer", text: message.content, finish: finish_reason, tokens: usage.completion_tokens };
};

const readAnswer = (stream: boolean, body: string): ReadBody => {
  try {
    return stream ? readStream(body) : readJson(body);
  } catch (error) {
    return { kind: "broken", why: `a body that does not parse: ${(error as Error).message.slice(0, 200)}` };
  }
};

/** What of an answer is wrong; empty: nothing. */
const faultsOf = (answer: Answer, expects: Expectation): string[] => {
  const faults: string[] = [];
  const wanted = expects.kind === "status" ? null : expects.tokens;
  if (wanted !== null && answer.tokens !== null && answer.tokens !== wanted)
    faults.push(`${answer.tokens} tokens instead of ${wanted}`);
  if (expects.kind === "text") {
    // A character that max_tokens cut in two is told as one replacement character.
    const text = expects.prefix ? answer.text.replace(/\uFFFD+$/, "") : answer.text;
    const isRight = expects.prefix ? expects.text.startsWith(text) : text === expects.text;
    if (!isRight) faults.push(`'${answer.text.slice(0, 80)}' instead of '${expects.text.slice(0, 80)}'`);
    const finish = expects.prefix ? "length" : "stop";
    if (answer.finish !== finish) faults.push(`finish ${answer.finish} instead of ${finish}`);
  }
  if (expects.kind === "length" && answer.finish !== "length") faults.push(`finish ${answer.finish} instead of length`);
  return faults;
};

/** Refusals of a request that is itself in order. */
const mayRefuse = (status: number, code: string | null, plan: RequestPlan, life: LifeView): boolean => {
  if (code === "rate_limit_exceeded") return status === 429;
  if (code === "deadline_exceeded") return status === 408 && plan.deadlineS !== undefined;
  return code === "overloaded" && status === 503 && (life.faulted || life.ending);
};

/** The status that an in-stream error stands for. */
const statusOf: Readonly<Record<string, number>> = { deadline_exceeded: 408, overloaded: 503 };

const seenTurn = ({ headers }: ReadResponse, { expects }: RequestPlan, tokens: number | null): SeenTurn => ({
  requestId: headers.get("x-request-id") ?? "",
  completionTokens: tokens ?? (expects.kind === "status" ? null : expects.tokens),
});

const judgeComplete = (response: ReadResponse, plan: RequestPlan, life: LifeView): Verdict => {
  const { status, body } = response;
  const { expects } = plan;
  const told = (problems: readonly string[], outcome: string, seen: readonly SeenTurn[] = []): Verdict => ({
    problems,
    seen,
    outcomes: [outcome],
  });
  if (response.headers.get("x-request-id") === undefined && status !== 400)
    return told(["no x-request-id"], String(status));
  if (status !== 200) {
    let error: ReturnType<typeof errorSchema.safeParse> | undefined;
    try {
      error = errorSchema.safeParse(JSON.parse(body));
    } catch {
      // The same as one that does not fit.
    }
    if (error?.success !== true) return told([`a ${status} without an error in its body`], String(status));
    const { code } = error.data.error;
    const isExpected =
      expects.kind === "status" && expects.status === status && (expects.code === null || expects.code === code);
    const isChat = plan.method === "POST" && plan.caller !== "stranger" && plan.caller !== "nobody";
    const isRight = isExpected || (isChat && mayRefuse(status, code, plan, life));
    return told(isRight ? [] : [`${status} ${code}: ${error.data.error.message.slice(0, 120)}`], `${status} ${code}`);
  }
  if (expects.kind === "status") return told(expects.status === 200 ? [] : [`200 instead of ${expects.status}`], "200");
  const read = readAnswer(plan.stream, body);
  if (read.kind === "broken") return told([read.why], "broken");
  if (read.kind === "error") {
    const isRight = mayRefuse(statusOf[read.code ?? ""] ?? 0, read.code, plan, life);
    return told(isRight ? [] : [`in-stream error ${read.code}`], `in-stream ${read.code}`);
  }
  return told(faultsOf(read, expects), "finished", [seenTurn(response, plan, read.tokens)]);
};

/** An answer that broke off, or that the client did not want to the end; its text may be there all the same. */
const judgeIncomplete = (response: ReadResponse, plan: RequestPlan, wanted: boolean, life: LifeView): Verdict => {
  const read =
    response.status === 200 && plan.expects.kind !== "status" ? readAnswer(plan.stream, response.body) : undefined;
  if (read?.kind === "answer") {
    const seen = [seenTurn(response, plan, read.tokens)];
    return { problems: faultsOf(read, plan.expects), seen, outcomes: ["finished"] };
  }
  // A plain request that was answered with white space already has no other way to fail.
  const mayBreak = life.cut || (!plan.stream && life.faulted && response.body.trim() === "");
  const problems = wanted && !mayBreak ? [`an answer breaks off after ${response.body.length} characters`] : [];
  return { problems, seen: [], outcomes: [wanted ? "broken off" : "left"] };
};

/**
 * A pipelined answer cannot be sent before the one ahead of it. One that has waited for the agent's write-stall limit is cut off: it would
 * hold its slot for a client that, for now, takes nothing.
 */
const mayBeCutBehind = ({ pipelined, requests }: ClientPlan, at: number): boolean =>
  pipelined && at > 0 && requests[0]?.expects.kind !== "status";

/** Judges all answers of one client. */
export const judgeAnswers = (plan: ClientPlan, end: ClientEnd, life: LifeView): Verdict => {
  const verdicts = plan.requests.slice(0, end.sent).map((request, at): Verdict => {
    const response = end.responses[at];
    const wanted = end.how !== "left" && !mayBeCutBehind(plan, at);
    if (response?.complete) return judgeComplete(response, request, life);
    if (response !== undefined) return judgeIncomplete(response, request, wanted, life);
    const isLost = wanted && !life.cut && !life.ending;
    return { problems: isLost ? ["no answer"] : [], seen: [], outcomes: [wanted ? "no answer" : "left"] };
  });
  const own: string[] = end.how === "hung" || end.how === "not http" ? [end.how] : [];
  if (end.sent === 0 && end.how === "lost" && !life.cut && !life.ending) own.push("no connection");
  return {
    problems: [...own, ...verdicts.flatMap(({ problems }) => problems)],
    seen: verdicts.flatMap(({ seen }) => seen),
    outcomes: verdicts.flatMap(({ outcomes }) => outcomes),
  };
};
