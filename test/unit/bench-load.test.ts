import test from "ava";
import { readStream } from "../../gpu-agent/src/bench/http-load.ts";
import { checkAnswer, type Load, runLoad, type TurnTimes } from "../../gpu-agent/src/bench/load.ts";

const load = (more: Partial<Load>): Load => ({
  callers: 1,
  turns: 1,
  messages: [],
  maxTokens: 5,
  bannedTokens: [],
  stream: true,
  expected: { tokens: 5 },
  ...more,
});

const times = (more: Partial<TurnTimes> = {}): TurnTimes => ({
  ttftMs: 2,
  turnMs: 10,
  answer: () => ({ text: "12345", tokens: 5, chunks: 4 }),
  ...more,
});

test("every turn is run once, by as many callers at a time as were asked for", async (t) => {
  let running = 0;
  let most = 0;
  const callers = new Set<number>();
  const sample = await runLoad(load({ callers: 3, turns: 10 }), async (caller) => {
    callers.add(caller);
    most = Math.max(most, ++running);
    await null;
    running--;
    return times();
  });
  t.is(sample.turnMs.length, 10);
  t.is(most, 3);
  t.deepEqual([...callers].toSorted(), [0, 1, 2]);
  t.is(sample.tokens, 50);
  t.is(sample.chunks, 40);
});

test("time per token is from the first token to the end, over the tokens but the first", async (t) => {
  const sample = await runLoad(load({}), () => Promise.resolve(times()));
  t.deepEqual(sample.tpotMs, [2]);
});

test("an answer of one token has no time per token, one in one piece no time to the first", async (t) => {
  const one = () => ({ text: "1", tokens: 1, chunks: 1 });
  const short = await runLoad(load({ expected: { tokens: 1 } }), () => Promise.resolve(times({ answer: one })));
  t.deepEqual(short.tpotMs, []);
  const whole = await runLoad(load({}), () => Promise.resolve(times({ ttftMs: undefined })));
  t.deepEqual([whole.ttftMs, whole.tpotMs], [[], []]);
});

test("an answer that is shorter or longer than was asked for, or says something else, fails the load", async (t) => {
  const run = (expected: Load["expected"]) => runLoad(load({ expected }), () => Promise.resolve(times()));
  await t.notThrowsAsync(run({ text: "12345" }));
  await t.throwsAsync(run({ text: "12346" }), { message: 'a wrong answer: "12345"' });
  await t.throwsAsync(run({ tokens: 6 }), { message: "an answer of 5 tokens, where 6 were asked for" });
  t.throws(() => checkAnswer({ text: "", tokens: 4, chunks: 0 }, { tokens: 5 }));
});

test("a turn that fails fails the load", async (t) => {
  await t.throwsAsync(
    runLoad(load({ turns: 2 }), () => Promise.reject(new Error("the replica was lost"))),
    { message: "the replica was lost" },
  );
});

const event = (body: object): string => `data: ${JSON.stringify(body)}\n\n`;
const piece = (content: string): string => event({ choices: [{ delta: { content } }], usage: null });
const END = `${event({ choices: [{ delta: {} }], usage: null })}${event({ choices: [], usage: { completion_tokens: 3 } })}`;

test("a stream's text, its pieces with text and the server's own count of tokens are read", (t) => {
  const stream = `: keep-alive\n\n${piece("")}${piece("1, ")}${piece("2")}${END}data: [DONE]\n\n`;
  t.deepEqual(readStream(stream), { text: "1, 2", tokens: 3, chunks: 2 });
});

test("a stream without [DONE], one with an error in it, and one that tells no count are refused", (t) => {
  t.throws(() => readStream(`${piece("1")}${END}`), { message: /a stream without its end/ });
  t.throws(() => readStream(`${event({ error: { message: "lost" } })}`), { message: /a stream without its end/ });
  t.throws(() => readStream(`${piece("1")}data: [DONE]\n\n`), { message: "a stream that does not tell its tokens" });
});
