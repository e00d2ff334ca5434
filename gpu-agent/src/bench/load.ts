/**
 * What a benchmark and its driver processes say to each other, and the closed loop that every driver runs: so many callers, each with its
 * next turn as soon as its last one ended. Answers are checked when the clock has stopped.
 *
 * Deliberately absent: who makes the turns (http-load.ts, decoder-load.ts) and what the figures mean (figures.ts, of each benchmark).
 */
import { z } from "zod";
import type { ChatMessage } from "../prompt/chat-template.ts";

const messageSchema: z.ZodType<ChatMessage> = z.object({
  role: z.enum(["system", "user", "assistant"]),
  content: z.string(),
});

/** One measurement: `callers` at once, `turns` in all, each with the same question. */
export const loadSchema = z.object({
  callers: z.number().int().min(1),
  turns: z.number().int().min(1),
  messages: z.array(messageSchema),
  maxTokens: z.number().int().min(1),
  /** Tokens that are never chosen: with the end tokens here every turn has `maxTokens` tokens, whatever the model. */
  bannedTokens: z.array(z.number()),
  /** False: the answer comes in one piece (a driver without HTTP makes no difference). */
  stream: z.boolean(),
  /** What every answer must be: its whole text, or its length. */
  expected: z.union([z.object({ text: z.string() }), z.object({ tokens: z.number() })]),
});
export type Load = z.infer<typeof loadSchema>;

/** The lowest bias that the API takes. */
export const BAN_BIAS = -100;

/** Where a driver over HTTP sends its load; the key comes over the channel between processes, never on a command line. */
export const targetSchema = z.object({ url: z.string(), key: z.string(), model: z.string() });
export type Target = z.infer<typeof targetSchema>;

export const driverRequestSchema = z.object({ load: loadSchema, target: targetSchema.optional() });
export type DriverRequest = z.infer<typeof driverRequestSchema>;

const sampleSchema = z.object({
  /** From the start of each turn to its first token, the wait for a slot included, ms. Empty where answers came in one piece. */
  ttftMs: z.array(z.number()),
  /** From the start of each turn to its end, ms. */
  turnMs: z.array(z.number()),
  /** Of each turn with more than one token: time from the first to the last over their number but one, ms. */
  tpotMs: z.array(z.number()),
  /** Tokens that came over all turns, end tokens included. */
  tokens: z.number(),
  /** Pieces of text that came over all turns; the end token has none, nor has a token that ends no character. */
  chunks: z.number(),
  /** From the start of the first turn to the end of the last, ms. */
  elapsedMs: z.number(),
  /** CPU time of the driver's own process meanwhile, ms. */
  driverCpuMs: z.number(),
});
export type Sample = z.infer<typeof sampleSchema>;

export const driverAnswerSchema = z.union([
  z.object({ ready: z.literal(true) }),
  z.object({ sample: sampleSchema }),
  z.object({ fault: z.string() }),
]);
export type DriverAnswer = z.infer<typeof driverAnswerSchema>;

/** An answer when it has been read. */
export interface Answer {
  readonly text: string;
  readonly tokens: number;
  readonly chunks: number;
}

export interface TurnTimes {
  /** Undefined where the answer came in one piece. */
  readonly ttftMs: number | undefined;
  readonly turnMs: number;
  /** Reads the answer; throws where it is none. Called when the clock has stopped. */
  readonly answer: () => Answer;
}

const SHOWN_CHARS = 200;

/** Throws where an answer is not the expected one. */
export const checkAnswer = ({ text, tokens }: Answer, expected: Load["expected"]): void => {
  if ("text" in expected) {
    if (text !== expected.text) throw new Error(`a wrong answer: ${JSON.stringify(text.slice(0, SHOWN_CHARS))}`);
  } else if (tokens !== expected.tokens) {
    throw new Error(`an answer of ${tokens} tokens, where ${expected.tokens} were asked for`);
  }
};

/** Runs the load; `turn` gets the number of its caller, from 0 on. */
export const runLoad = async (load: Load, turn: (caller: number) => Promise<TurnTimes>): Promise<Sample> => {
  const done: TurnTimes[] = [];
  let left = load.turns;
  const caller = async (index: number): Promise<void> => {
    while (left > 0) {
      left--;
      done.push(await turn(index));
    }
  };
  const cpuBefore = process.cpuUsage();
  const startMs = performance.now();
  await Promise.all(Array.from({ length: load.callers }, (_, index) => caller(index)));
  const elapsedMs = performance.now() - startMs;
  const { user, system } = process.cpuUsage(cpuBefore);

  const answers = done.map(({ answer }) => answer());
  for (const answer of answers) checkAnswer(answer, load.expected);
  return {
    ttftMs: done.flatMap(({ ttftMs }) => (ttftMs === undefined ? [] : [ttftMs])),
    turnMs: done.map(({ turnMs }) => turnMs),
    tpotMs: done.flatMap(({ ttftMs, turnMs }, at) => {
      const tokens = answers[at]?.tokens ?? 0;
      return ttftMs === undefined || tokens < 2 ? [] : [(turnMs - ttftMs) / (tokens - 1)];
    }),
    tokens: answers.reduce((total, { tokens }) => total + tokens, 0),
    chunks: answers.reduce((total, { chunks }) => total + chunks, 0),
    elapsedMs,
    driverCpuMs: (user + system) / 1000,
  };
};

/** The life of a driver process: says that it is ready, answers one request after another, resolves when the benchmark is gone. */
export const serveLoads = (run: (request: DriverRequest) => Promise<Sample>): Promise<void> =>
  new Promise((resolve) => {
    // A benchmark that is interrupted while this one starts may be gone at any point of it: a failed send is the same as a disconnect.
    const gone = () => resolve();
    if (!process.connected) gone();
    const answer = (message: DriverAnswer) =>
      process.send?.(message, undefined, {}, (error) => {
        if (error !== null) gone();
      });
    process.once("disconnect", gone);
    // Ctrl-C reaches the whole foreground group; the benchmark ends its drivers in order.
    process.on("SIGINT", () => undefined);
    process.on("message", (message) => {
      run(driverRequestSchema.parse(message)).then(
        (sample) => answer({ sample }),
        (error: unknown) => answer({ fault: error instanceof Error ? error.message : String(error) }),
      );
    });
    answer({ ready: true });
  });
