/**
 * The isolation gate: many callers at once, each with an identifier of its own hidden in a prompt of its own length, in every way of
 * asking and leaving. Afterwards each answer, its usage and its timings are held against the wire log: what that turn's engine really said.
 *
 * It judges nothing: it counts what is wrong, and prints the seed that repeats the plan. Clients and plan are here; who serves is not.
 */
import { createHash } from "node:crypto";
import { z } from "zod";
import { expectedAnswers } from "./expected-answers.ts";
import { seededRandom } from "./seeded-random.ts";
import type { WireTurn } from "./wire-log.ts";

export interface GatePlan {
  readonly seed: number;
  readonly callers: number;
  readonly turns: number;
  /** Share of the turns that are cut off by the client, and that read slowly. */
  readonly disconnects: number;
  readonly slowReaders: number;
  /** Called after so many turns have ended, e.g. to kill a replica. */
  readonly at?: ReadonlyMap<number, () => void>;
}

export interface GateTarget {
  readonly url: string;
  readonly key: string;
}

/** What one caller got. */
interface Reply {
  readonly identifier: string;
  readonly how: "plain" | "stream" | "stop" | "cut" | "slow";
  readonly status: number;
  /** Its `x-request-id`; null where no headers came. */
  readonly requestId: string | null;
  readonly text: string;
  readonly finishReason: string | null;
  readonly usage: Usage | null;
  readonly timings: Timings | null;
  /** In-stream error, or the connection broke without one. */
  readonly failed: boolean;
  /** What the model says to the same prompt with nobody beside it; asked only where the text is not the identifier. */
  readonly alone?: string;
}

/** Counts of what must not be; `examples` say the first few in words. */
export interface GateReport {
  readonly seed: number;
  readonly turns: number;
  readonly complete: number;
  readonly failed: number;
  readonly cut: number;
  readonly emptyReplies: number;
  readonly wrongAnswers: number;
  readonly foreignIdentifiers: number;
  readonly mixedStatistics: number;
  readonly foreignRequestIds: number;
  /** Way of asking and status of those that failed, each once. */
  readonly failures: readonly string[];
  readonly examples: readonly string[];
}

const usageSchema = z.object({
  prompt_tokens: z.number(),
  completion_tokens: z.number(),
  total_tokens: z.number(),
  prompt_tokens_details: z.object({ cached_tokens: z.number() }).optional(),
});
type Usage = z.infer<typeof usageSchema>;
const timingsSchema = z.object({
  prompt_n: z.number(),
  prompt_ms: z.number(),
  predicted_n: z.number(),
  predicted_ms: z.number(),
  cache_n: z.number(),
  draft_n: z.number(),
  draft_n_accepted: z.number(),
});
type Timings = z.infer<typeof timingsSchema>;

const choiceSchema = z.object({
  finish_reason: z.string().nullable(),
  delta: z.object({ content: z.string().optional() }).optional(),
  message: z.object({ content: z.string() }).optional(),
});
const objectSchema = z.object({
  choices: z.array(choiceSchema).optional(),
  usage: usageSchema.nullable().optional(),
  timings: timingsSchema.nullable().optional(),
  error: z.unknown().optional(),
});

const texts = expectedAnswers.filter(({ task, prompt_tokens }) => task === "slot-ticket" && prompt_tokens <= 1000);
const ticket = /SLOT-\d+-[A-Z]{3}-\d{5}/;

/** `SLOT-7-KQX-13579`: the form that the model's card promises to recall; `serial` makes it unique within a run. */
const identifierOf = (serial: number, random: () => number): string => {
  const letters = Array.from({ length: 3 }, () => String.fromCharCode(65 + Math.floor(random() * 26))).join("");
  const digits = "0123456789".split("");
  let tail = "";
  for (let at = 0; at < 5; at++) tail += digits.splice(Math.floor(random() * digits.length), 1)[0];
  return `SLOT-${serial % 10}-${letters}-${tail}`;
};

/** How long a slow reader rests between reads, ms. */
const SLOW_READ_MS = 5;
/** After this many bytes a client that cuts off does so. */
const CUT_AFTER_EVENTS = 3;

const absorb = (reply: { -readonly [K in keyof Reply]: Reply[K] }, json: string): void => {
  const { choices = [], usage, timings, error } = objectSchema.parse(JSON.parse(json));
  for (const { delta, message, finish_reason } of choices) {
    reply.text += delta?.content ?? message?.content ?? "";
    reply.finishReason ??= finish_reason;
  }
  reply.usage ??= usage ?? null;
  reply.timings ??= timings ?? null;
  if (error !== undefined) reply.failed = true;
};

/** The trace under which a caller's request goes: the agent's log names it beside the request's id. */
const traceIdOf = (identifier: string): string => createHash("sha256").update(identifier).digest("hex").slice(0, 32);

const ask = async (
  target: GateTarget,
  identifier: string,
  how: Reply["how"],
  content: string,
  traceId = traceIdOf(identifier),
): Promise<Reply> => {
  const reply: { -readonly [K in keyof Reply]: Reply[K] } = {
    identifier,
    how,
    status: 0,
    requestId: null,
    text: "",
    finishReason: null,
    usage: null,
    timings: null,
    failed: false,
  };
  const abort = new AbortController();
  const stream = how !== "plain";
  try {
    const response = await fetch(`${target.url}/v1/chat/completions`, {
      method: "POST",
      signal: abort.signal,
      headers: {
        authorization: `Bearer ${target.key}`,
        "content-type": "application/json",
        traceparent: `00-${traceId}-${"1".repeat(16)}-01`,
      },
      body: JSON.stringify({
        model: "default",
        max_tokens: 48,
        messages: [{ role: "user", content }],
        ...(stream ? { stream: true, stream_options: { include_usage: true } } : {}),
        ...(how === "stop" ? { stop: stopOf(identifier) } : {}),
      }),
    });
    reply.status = response.status;
    reply.requestId = response.headers.get("x-request-id");
    if (response.status !== 200) {
      await response.arrayBuffer();
      reply.failed = true;
      return reply;
    }
    if (!stream) {
      absorb(reply, await response.text());
      return reply;
    }
    let rest = "";
    let events = 0;
    let finished = false;
    for await (const chunk of (response.body ?? new ReadableStream<Uint8Array>()).pipeThrough(
      new TextDecoderStream(),
    )) {
      const parts = (rest + chunk).split("\n\n");
      rest = parts.pop() ?? "";
      for (const event of parts) {
        if (event === "data: [DONE]") finished = true;
        else if (event.startsWith("data: ")) absorb(reply, event.slice(6));
        if (how === "cut" && ++events >= CUT_AFTER_EVENTS) {
          abort.abort();
          return reply;
        }
      }
      if (how === "slow") await new Promise((resolve) => setTimeout(resolve, SLOW_READ_MS));
    }
    if (!finished) reply.failed = true;
  } catch {
    if (how !== "cut") reply.failed = true;
  }
  return reply;
};

const stopOf = (identifier: string): string => identifier.slice(-3, -1);

/** The right text of a reply: the identifier, or what the model makes of it when it is alone, up to the stop string. */
const expectedOf = ({ identifier, alone, how }: Reply): string => {
  const said = alone ?? identifier;
  const end = how === "stop" ? said.indexOf(stopOf(identifier)) : -1;
  return end < 0 ? said : said.slice(0, end);
};

const isRight = (reply: Reply): boolean =>
  reply.how === "cut" ? expectedOf(reply).startsWith(reply.text) : reply.text === expectedOf(reply);

/** Runs the plan; `onProgress` hears how many turns have ended. */
export const runGate = async (target: GateTarget, plan: GatePlan): Promise<readonly Reply[]> => {
  const random = seededRandom(plan.seed);
  const replies: Reply[] = [];
  const prompts = new Map<string, string>();
  let begun = 0;
  const caller = async (): Promise<void> => {
    while (begun < plan.turns) {
      const serial = begun++;
      let identifier = identifierOf(serial, random);
      while (prompts.has(identifier)) identifier = identifierOf(serial, random);
      const draw = random();
      const source = texts[Math.floor(random() * texts.length)];
      if (source === undefined) throw new Error("there is no text to hide an identifier in");
      const how =
        draw < plan.disconnects
          ? "cut"
          : draw < plan.disconnects + plan.slowReaders
            ? "slow"
            : draw < plan.disconnects + plan.slowReaders + 0.15
              ? "stop"
              : draw < 0.65
                ? "plain"
                : "stream";
      const content = (source.messages[0]?.content ?? "").replace(ticket, identifier);
      prompts.set(identifier, content);
      replies.push(await ask(target, identifier, how, content));
      plan.at?.get(replies.length)?.();
    }
  };
  await Promise.all(Array.from({ length: plan.callers }, caller));
  // A small model misreads an identifier now and then, always in the same way: whether that is what happened only a turn alone can tell.
  const judged: Reply[] = [];
  for (const reply of replies) {
    const content = prompts.get(reply.identifier);
    if (reply.failed || isRight(reply) || content === undefined) judged.push(reply);
    else {
      const { text } = await ask(target, reply.identifier, "plain", content, traceIdOf(`${reply.identifier} alone`));
      judged.push({ ...reply, alone: text });
    }
  }
  return judged;
};

const loggedTurnSchema = z.object({ event: z.literal("turn_ended"), trace_id: z.string(), request: z.string() });

/** The id under which the agent ran each trace's request, from the lines of its log; those that tell of no turn are passed over. */
const requestIdsIn = (log: string): ReadonlyMap<string, string> =>
  new Map(
    log
      .split("\n")
      .filter((line) => line.includes('"turn_ended"'))
      .map((line) => loggedTurnSchema.parse(JSON.parse(line)))
      .map(({ trace_id, request }) => [trace_id, request]),
  );

/**
 * Holds replies against the turns of the wire log. `textOf` turns token ids into text; `agentLog` is what the agent wrote at level info, or
 * absent: then request ids are not looked at.
 */
export const judgeGate = (
  seed: number,
  replies: readonly Reply[],
  wire: readonly WireTurn[],
  textOf: (ids: readonly number[]) => string,
  agentLog?: string,
): GateReport => {
  const turnsOf = new Map<string, WireTurn[]>();
  for (const turn of wire) {
    const identifier = ticket.exec(textOf(turn.promptIds))?.[0];
    if (identifier !== undefined) turnsOf.set(identifier, [...(turnsOf.get(identifier) ?? []), turn]);
  }
  const all = new Set(replies.map(({ identifier }) => identifier));
  const counts = {
    complete: 0,
    failed: 0,
    cut: 0,
    emptyReplies: 0,
    wrongAnswers: 0,
    foreignIdentifiers: 0,
    mixedStatistics: 0,
    foreignRequestIds: 0,
  };
  const requestIds = requestIdsIn(agentLog ?? "");
  const failures = new Set<string>();
  const examples: string[] = [];
  const wrong = (what: keyof typeof counts, reply: Reply, why: string) => {
    counts[what]++;
    if (examples.length < 10) examples.push(`${what}: ${reply.how} ${reply.identifier}: ${why}`);
  };
  for (const reply of replies) {
    const foreign = [...reply.text.matchAll(/SLOT-\d+-[A-Z]{3}-\d{5}/g)].find(
      ([found]) => found !== reply.identifier && all.has(found),
    );
    if (foreign !== undefined) wrong("foreignIdentifiers", reply, `it holds ${foreign[0]}`);
    const ownId = requestIds.get(traceIdOf(reply.identifier));
    if (agentLog !== undefined && reply.requestId !== null && reply.status === 200 && reply.requestId !== ownId) {
      wrong("foreignRequestIds", reply, `it was ${reply.requestId}, its turn ran as ${ownId}`);
    }
    if (reply.how === "cut") {
      counts.cut++;
      if (!isRight(reply)) wrong("wrongAnswers", reply, `it began with '${reply.text}'`);
      continue;
    }
    if (reply.failed) {
      counts.failed++;
      failures.add(`${reply.how} ${reply.status}`);
      continue;
    }
    counts.complete++;
    if (reply.text === "") wrong("emptyReplies", reply, `finish ${reply.finishReason}`);
    else if (!isRight(reply)) wrong("wrongAnswers", reply, `'${reply.text}'`);
    const fault = statisticsFault(reply, turnsOf.get(reply.identifier)?.at(reply.alone === undefined ? -1 : -2));
    if (fault !== undefined) wrong("mixedStatistics", reply, fault);
  }
  return { seed, turns: replies.length, ...counts, failures: [...failures], examples };
};

/** What in a reply's figures is not its own turn's; undefined when all is. */
const statisticsFault = ({ usage, timings, how }: Reply, turn: WireTurn | undefined): string | undefined => {
  if (turn === undefined) return "no turn in the wire log holds its identifier";
  const { done } = turn;
  if (done === null) {
    // Its answer was complete at its stop string, and its engine was lost before DONE: it must say so, and claim nothing.
    const saysSo = how === "stop" && timings === null && usage?.prompt_tokens_details === undefined;
    return saysSo ? undefined : "its turn has no DONE, and its reply tells figures";
  }
  if (usage === null || timings === null) return "it has no usage or no timings";
  const own = {
    prompt_n: done.promptRead,
    prompt_ms: done.promptMs,
    predicted_n: done.generated,
    predicted_ms: done.decodeMs,
    cache_n: done.reused,
    draft_n: done.draftsOffered,
    draft_n_accepted: done.draftsAccepted,
  };
  for (const [name, value] of Object.entries(own)) {
    const told = timings[name as keyof Timings];
    if (told !== value) return `timings.${name} is ${told}, its DONE says ${value}`;
  }
  if (usage.prompt_tokens !== turn.promptIds.length)
    return `prompt_tokens ${usage.prompt_tokens}, sent ${turn.promptIds.length}`;
  if (usage.prompt_tokens !== done.promptTokens)
    return `prompt_tokens ${usage.prompt_tokens}, DONE says ${done.promptTokens}`;
  if (usage.prompt_tokens_details?.cached_tokens !== done.reused) return "cached_tokens is not its DONE's";
  if (usage.total_tokens !== usage.prompt_tokens + usage.completion_tokens) return "total_tokens is not the sum";
  const natural = how !== "stop";
  if (natural ? usage.completion_tokens !== done.generated : usage.completion_tokens > done.generated) {
    return `completion_tokens ${usage.completion_tokens}, DONE says ${done.generated}`;
  }
  return undefined;
};
