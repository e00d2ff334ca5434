/**
 * What the soak's clients do, drawn from a seeded random: whom they claim to be, what they ask, what must come back, and how they read or go
 * away. Pure; nothing is sent here.
 */
import { expectedAnswers } from "../helpers/expected-answers.ts";
import { MAX_READ_PAUSE_MS, STALLED_READER_MS } from "./soak-limits.ts";

/** Tokens after which the built-in model stops; banned, an answer goes on to its limit. */
const BAN_THE_END = { 1021: -100, 1023: -100 };
/** What a slot of the built-in model holds, prompt and answer. */
const CONTEXT_TOKENS = 2_048;
const LONG_PROMPT_WORDS = 450;
const PIPELINED = { low: 2, high: 5 } as const;
const FLOOD = { low: 8, high: 32 } as const;
/** Salts of so many tenants: the prefix cache is partitioned by them. */
const TENANTS = 3;

/** What must come back where nothing goes wrong. */
export type Expectation =
  /** Exactly this text, or one that begins so where the answer was cut by max_tokens. */
  | { readonly kind: "text"; readonly text: string; readonly prefix: boolean; readonly tokens: number | null }
  /** Whatever text, of so many tokens. */
  | { readonly kind: "length"; readonly tokens: number }
  | { readonly kind: "status"; readonly status: number; readonly code: string | null };

export interface RequestPlan {
  readonly method: "GET" | "POST";
  readonly path: string;
  /** `edge` signs as an edge would; `replay` repeats the head of the plan's request before. */
  readonly caller: "local" | "edge" | "replay" | "stranger" | "nobody";
  readonly tenant: number;
  readonly stream: boolean;
  readonly body: string;
  /** Time that the client gives, seconds; undefined: none. */
  readonly deadlineS: number | undefined;
  readonly expects: Expectation;
}

export type Behaviour =
  | { readonly kind: "read" }
  /** Reads with breaks. */
  | { readonly kind: "slow"; readonly pauseMs: number; readonly everyBytes: number }
  /** Stops reading after so many bytes, stays connected for `holdMs`, then goes. */
  | { readonly kind: "stalls"; readonly afterBytes: number; readonly holdMs: number }
  /** Goes away once so much was seen; `sent`: some ms after the request was written. */
  | {
      readonly kind: "leaves";
      readonly at:
        | { readonly kind: "sent"; readonly ms: number }
        | { readonly kind: "head" }
        | { readonly kind: "bytes"; readonly bytes: number };
      readonly how: "reset" | "close";
    }
  /** Sends only so much of its body, then resets. */
  | { readonly kind: "cuts"; readonly bodyBytes: number };

export interface ClientPlan {
  readonly name: string;
  readonly requests: readonly RequestPlan[];
  /** All requests at once, or each after the answer to the one before. */
  readonly pipelined: boolean;
  readonly behaviour: Behaviour;
}

type Random = () => number;

export const intIn = (random: Random, low: number, high: number): number =>
  low + Math.floor(random() * (high - low + 1));

export const pick = <T>(random: Random, items: readonly T[]): T => {
  const item = items[Math.floor(random() * items.length)];
  if (item === undefined) throw new Error("there is nothing to pick from");
  return item;
};

const READ: Behaviour = { kind: "read" };

const chat = (
  random: Random,
  fields: Readonly<Record<string, unknown>>,
  expects: Expectation,
  streamed = random() < 0.6,
): RequestPlan => ({
  method: "POST",
  path: "/v1/chat/completions",
  caller: random() < 0.5 ? "local" : "edge",
  tenant: intIn(random, 0, TENANTS - 1),
  stream: streamed,
  body: JSON.stringify({
    model: "default",
    stream: streamed,
    ...(streamed && random() < 0.5 ? { stream_options: { include_usage: true } } : {}),
    ...fields,
  }),
  deadlineS: undefined,
  expects,
});

/** A known question; its whole answer must come back to the letter. */
const known = (random: Random, stream?: boolean): RequestPlan => {
  const { messages, max_tokens, expected, expected_tokens } = pick(random, expectedAnswers);
  const expects: Expectation = { kind: "text", text: expected, prefix: false, tokens: expected_tokens };
  return chat(random, { messages, max_tokens }, expects, stream);
};

/** A known question with a stop string out of its answer. */
const stopped = (random: Random): RequestPlan => {
  const { messages, max_tokens, expected } = pick(random, expectedAnswers);
  const letters = [...expected];
  const from = intIn(random, 0, letters.length - 1);
  const stop = letters.slice(from, from + intIn(random, 1, 6)).join("");
  const text = expected.slice(0, expected.indexOf(stop));
  return chat(random, { messages, max_tokens, stop: [stop] }, { kind: "text", text, prefix: false, tokens: null });
};

/** A known question with fewer tokens than its answer has. */
const shortened = (random: Random): RequestPlan => {
  const { messages, expected, expected_tokens } = pick(random, expectedAnswers);
  const tokens = intIn(random, 1, Math.max(1, expected_tokens - 1));
  return chat(random, { messages, max_tokens: tokens }, { kind: "text", text: expected, prefix: true, tokens });
};

const long = (random: Random, wanted: number, stream?: boolean): RequestPlan => {
  const { messages, prompt_tokens } = pick(random, expectedAnswers);
  const tokens = Math.min(wanted, CONTEXT_TOKENS - prompt_tokens);
  return chat(random, { messages, max_tokens: tokens, logit_bias: BAN_THE_END }, { kind: "length", tokens }, stream);
};

/** A prompt that takes a while to read; one of few, so that the caches are not filled by it. */
const longPrompt = (random: Random): RequestPlan => {
  const content = `${intIn(random, 0, 9)} ${"word ".repeat(LONG_PROMPT_WORDS)}`;
  const tokens = intIn(random, 1, 40);
  return chat(
    random,
    { messages: [{ role: "user", content }], max_tokens: tokens, logit_bias: BAN_THE_END },
    { kind: "length", tokens },
  );
};

const single = (name: string, request: RequestPlan, behaviour: Behaviour = READ): ClientPlan => ({
  name,
  requests: [request],
  pipelined: false,
  behaviour,
});

const wrong = (random: Random, body: string, status: number, code: string | null): RequestPlan => ({
  ...chat(random, {}, { kind: "status", status, code }),
  body,
});

const get = (path: string, caller: RequestPlan["caller"], status: number, code: string | null = null): RequestPlan => ({
  method: "GET",
  path,
  caller,
  tenant: 0,
  stream: false,
  body: "",
  deadlineS: undefined,
  expects: { kind: "status", status, code },
});

const garbage = (random: Random): RequestPlan => {
  const question = [{ role: "user", content: "Say hello." }];
  const fields = (extra: object) => JSON.stringify({ model: "default", messages: question, ...extra });
  const bodies: readonly (readonly [string, number, string | null])[] = [
    ["", 400, null],
    ["{", 400, null],
    ["[1, 2, 3]", 400, null],
    ['"\u0000\u0001"', 400, null],
    [fields({ messages: [] }), 400, null],
    [fields({ messages: "hello" }), 400, null],
    [fields({ max_tokens: -1 }), 400, null],
    [fields({ max_tokens: 1e99 }), 400, null],
    [fields({ stop: ["", "a"] }), 400, null],
    [fields({ logit_bias: { 99999999: 1 } }), 400, null],
    [fields({ nonsense: true }), 400, null],
    [fields({ model: "another" }), 404, "model_not_found"],
  ];
  const [body, status, code] = pick(random, bodies);
  return wrong(random, body, status, code);
};

const leaving = (random: Random): Behaviour => {
  const at = pick(random, [
    { kind: "sent", ms: intIn(random, 0, 120) },
    { kind: "head" },
    { kind: "bytes", bytes: intIn(random, 1, 60_000) },
  ] as const);
  return { kind: "leaves", at, how: random() < 0.5 ? "reset" : "close" };
};

/** Mostly some hundred tokens, so that slots change hands; now and then half a context. */
const anyLong = (random: Random, stream?: boolean) =>
  long(random, random() < 0.8 ? intIn(random, 20, 300) : intIn(random, 300, CONTEXT_TOKENS / 2), stream);

const leavable = (random: Random): RequestPlan =>
  pick<(random: Random) => RequestPlan>(random, [known, anyLong, anyLong, longPrompt])(random);

/** The kinds of clients, with how often each comes. */
const kinds: readonly (readonly [weight: number, draw: (random: Random) => ClientPlan])[] = [
  [22, (random) => single("known", known(random))],
  [8, (random) => single("stop string", stopped(random))],
  [6, (random) => single("max_tokens", shortened(random))],
  [6, (random) => single("long", anyLong(random))],
  [4, (random) => single("long prompt", longPrompt(random))],
  [24, (random) => single("leaves", leavable(random), leaving(random))],
  [
    4,
    (random) => {
      const request = random() < 0.5 ? known(random) : longPrompt(random);
      return single("deadline", { ...request, deadlineS: pick(random, [0.01, 0.05, 0.2, 1, 60]) });
    },
  ],
  [
    3,
    (random) => {
      const content = "word ".repeat(intIn(random, 2_100, 9_000));
      const body = JSON.stringify({ model: "default", messages: [{ role: "user", content }] });
      return single("too long", wrong(random, body, 400, "context_length_exceeded"));
    },
  ],
  [6, (random) => single("garbage", garbage(random))],
  [
    3,
    (random) => {
      const request = anyLong(random);
      return single("cut body", request, { kind: "cuts", bodyBytes: intIn(random, 0, request.body.length - 1) });
    },
  ],
  [
    3,
    (random) => {
      const one = pick(random, [
        get("/v1/status", "stranger", 401),
        get("/metrics", "nobody", 401),
        { ...known(random), caller: "stranger", expects: { kind: "status", status: 401, code: null } },
        { ...known(random), caller: "nobody", expects: { kind: "status", status: 401, code: null } },
      ] as const);
      const requests = Array.from({ length: intIn(random, FLOOD.low, FLOOD.high) }, () => one);
      return { name: "unknown callers", requests, pipelined: random() < 0.5, behaviour: READ };
    },
  ],
  [
    2,
    (random) => {
      const first: RequestPlan = { ...known(random), caller: "edge" };
      const again: RequestPlan = { ...first, caller: "replay", expects: { kind: "status", status: 401, code: null } };
      return { name: "replay", requests: [first, again], pipelined: false, behaviour: READ };
    },
  ],
  [
    5,
    (random) => {
      const pauseMs = intIn(random, 10, MAX_READ_PAUSE_MS);
      return single("slow reader", anyLong(random, true), { kind: "slow", pauseMs, everyBytes: 40_000 });
    },
  ],
  [
    1,
    (random) => {
      // Pipelined, since the kernel's buffers hold several whole answers.
      const requests = Array.from({ length: 12 }, () => long(random, CONTEXT_TOKENS / 2, true));
      const behaviour: Behaviour = { kind: "stalls", afterBytes: intIn(random, 0, 5_000), holdMs: STALLED_READER_MS };
      return { name: "stalled reader", requests, pipelined: true, behaviour };
    },
  ],
  [
    6,
    (random) => {
      const requests = Array.from({ length: intIn(random, PIPELINED.low, PIPELINED.high) }, (_, at) =>
        at > 0 && random() < 0.2 ? get("/v1/models", "local", 200) : known(random),
      );
      const behaviour = random() < 0.75 ? READ : leaving(random);
      return { name: "keep-alive", requests, pipelined: random() < 0.6, behaviour };
    },
  ],
  [
    4,
    (random) => {
      const paths = ["/v1/status", "/metrics", "/v1/models", "/healthz"] as const;
      return single("observer", get(pick(random, paths), "local", 200));
    },
  ],
];

const totalWeight = kinds.reduce((sum, [weight]) => sum + weight, 0);

/** The next client. */
export const drawClient = (random: Random): ClientPlan => {
  let left = random() * totalWeight;
  for (const [weight, draw] of kinds) {
    left -= weight;
    if (left < 0) return draw(random);
  }
  return single("known", known(random));
};

/** One client of each kind, in order: what a warm-up begins with. */
export const oneOfEachKind = (random: Random): readonly ClientPlan[] => kinds.map(([, draw]) => draw(random));
