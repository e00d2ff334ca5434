/**
 * Field reports about clients that go away and engines that are slow: the real edge, the real agent, and an engine whose pace each request
 * names. All tests run at once, each on a replica of its own; a turn is known by its seed.
 */
import test, { type ExecutionContext } from "ava";
import { createParser } from "eventsource-parser";
import { atRest } from "../helpers/agent-process.ts";
import type { RawResponse } from "../helpers/edge-worker-client.ts";
import { seedOf } from "../helpers/engine-pace.ts";
import { type PacedAgent, pacedBody, startPacedAgent } from "../helpers/paced-agent.ts";

/** From the contract: how soon a client's going away must have reached the engine; an orderly close is seen at the next keep-alive. */
const LIMIT_MS = { reset: 1_000, close: 3_000 } as const;
type Way = keyof typeof LIMIT_MS;
const ways = ["reset", "close"] as const;
/** From the contract: the longest silence on a stream. */
const MAX_SILENCE_MS = 2_000;

/** One turn each of the tests below, all at once. */
const REPLICAS = 11;
let paced: PacedAgent;
test.before(async () => {
  paced = await startPacedAgent(["--replicas", String(REPLICAS)]);
});
test.after.always(async (t) => {
  t.is(await paced?.stop(), 0);
});

const leave = ({ socket }: RawResponse, way: Way): void => {
  if (way === "reset") socket.resetAndDestroy();
  // Everything that came was read, so the kernel sends a FIN.
  else socket.destroy();
};

/** The engine was told to stop within the limit of that way to go, and its DONE says that it did. */
const assertStopped = async (t: ExecutionContext, seed: number, way: Way, leftAtMs: number): Promise<void> => {
  const lines = await paced.untilTurn(seed, (all) => all.at(-1)?.text.startsWith("DONE ") === true, "DONE");
  const stopped = lines.filter(({ text }) => text === "STOP");
  t.is(stopped.length, 1);
  const tookMs = Date.parse(stopped[0]?.time ?? "") - leftAtMs;
  t.log(`STOP was written after ${tookMs} ms`);
  t.true(tookMs <= LIMIT_MS[way], `${tookMs} ms`);
  t.regex(lines.at(-1)?.text ?? "", / cancel /);
};

/** Reads until the text is as wanted. */
const readUntil = async (response: RawResponse, wanted: (text: string) => boolean): Promise<string> => {
  let text = "";
  while (!wanted(text)) {
    const chunk = await response.read();
    if (chunk === undefined) throw new Error(`the answer ended: ${text}`);
    text += chunk.toString();
  }
  return text;
};

for (const [at, way] of ways.entries()) {
  test(`field report 1: 100 chunks over 20 s, the client gone at chunk 5 by ${way}: the engine is stopped in time`, async (t) => {
    const seed = seedOf("tokens", 200 + at);
    const response = await paced.send(pacedBody(seed, { stream: true, max_tokens: 100 })).response;
    await readUntil(response, (text) => text.split("data: ").length > 5);
    const leftAtMs = Date.now();
    leave(response, way);
    await assertStopped(t, seed, way, leftAtMs);
    // The first chunk names the role alone.
    const tokens = paced.turn(seed).filter(({ text }) => text.startsWith("T "));
    t.true(tokens.length >= 4 && tokens.length < 100, `${tokens.length} tokens`);
  });

  // The client waits for what the agent sends at least every 2 s, and so for no fixed time.
  for (const stream of [true, false]) {
    const [subject, sign] = stream
      ? ["field report 2: a stream", ": keep-alive\n\n"]
      : ["field report 3: a plain request", " "];
    test(`${subject} with 10 s of silence, the client gone after its first keep-alive by ${way}: the engine is stopped in time`, async (t) => {
      const seed = seedOf("silence", 10_000 + 2 * at + Number(stream));
      const response = await paced.send(pacedBody(seed, { stream })).response;
      t.is(response.status, 200);
      t.is(await readUntil(response, (text) => text.length >= sign.length), sign);
      const leftAtMs = Date.now();
      leave(response, way);
      await assertStopped(t, seed, way, leftAtMs);
      t.is(paced.turn(seed).filter(({ text }) => text.startsWith("T ")).length, 0);
    });
  }
}

test("field report 2: a client gone by reset before any byte of its answer: the engine is stopped in time", async (t) => {
  const seed = seedOf("silence", 10_100);
  const { request } = paced.send(pacedBody(seed, { stream: false }));
  await paced.untilTurn(seed, (lines) => lines.length > 0, "GEN");
  const leftAtMs = Date.now();
  request.socket?.resetAndDestroy();
  await assertStopped(t, seed, "reset", leftAtMs);
});

/**
 * 150 s of prefill, here 10 s: keep-alives know no length of a wait, and the unit test of the client's stream runs all 150 s on a clock
 * of its own. What arrives is counted over the whole time, so that one late look of this process is no failure.
 */
const PREFILL_MS = 10_000;

/** Everything of an answer, with the longest time between two reads. */
const listen = async (response: RawResponse) => {
  let text = "";
  let longestMs = 0;
  for (let lastMs = performance.now(); ; lastMs = performance.now()) {
    const chunk = await response.read();
    longestMs = Math.max(longestMs, performance.now() - lastMs);
    if (chunk === undefined) return { text, longestMs };
    text += chunk.toString();
  }
};

const eventsIn = (text: string): string[] => {
  const events: string[] = [];
  createParser({ onEvent: ({ data }) => void events.push(data) }).feed(text);
  return events;
};

test("field report 25: a stream's long prefill (10 s for 150 s): a byte at least every 2 s, then the whole answer", async (t) => {
  const seed = seedOf("prefill", PREFILL_MS);
  const { text, longestMs } = await listen(await paced.send(pacedBody(seed, { stream: true })).response);
  t.log(`longest silence ${longestMs.toFixed(0)} ms`);
  const heard = text.slice(0, text.indexOf("data: ")).split(": keep-alive\n\n").length - 1;
  t.true(heard >= Math.floor(PREFILL_MS / MAX_SILENCE_MS), `${heard} keep-alives`);
  const events = eventsIn(text);
  t.is(events.at(-1), "[DONE]");
  t.true(events.slice(0, -1).every((data) => JSON.parse(data).object === "chat.completion.chunk"));
});

test("field report 25: a plain request's long prefill (10 s for 150 s): a space at least every 2 s, then valid JSON", async (t) => {
  const seed = seedOf("prefill", PREFILL_MS + 1);
  const response = await paced.send(pacedBody(seed)).response;
  t.is(response.status, 200);
  const { text, longestMs } = await listen(response);
  t.log(`longest silence ${longestMs.toFixed(0)} ms`);
  const spaces = text.length - text.trimStart().length;
  t.true(spaces >= Math.floor(PREFILL_MS / MAX_SILENCE_MS), `${spaces} spaces`);
  t.is(JSON.parse(text).usage.completion_tokens, 2);
});

test("field report 25: an error after a long prefill is an in-stream error, with no [DONE] and a clean end", async (t) => {
  const response = await paced.send(pacedBody(seedOf("error", 4_000), { stream: true })).response;
  t.is(response.status, 200);
  const { bytes, clean } = await response.rest();
  const text = bytes.toString();
  t.true(clean);
  t.true(text.startsWith(": keep-alive\n\n"));
  const events = eventsIn(text);
  t.is(events.length, 1);
  t.is(JSON.parse(events[0] ?? "").error.code, "engine_error");
  t.false(text.includes("[DONE]"));
});

test("field report 25: an error after a plain request's long prefill is a broken body, never a 200 with an error in it", async (t) => {
  const response = await paced.send(pacedBody(seedOf("error", 4_001))).response;
  t.is(response.status, 200);
  const { bytes, clean } = await response.rest();
  t.false(clean);
  t.regex(bytes.toString(), /^ +$/);
});

test.after("when all have gone nothing runs, and no replica was lost", async (t) => {
  const { replicas } = await paced.agent.until(atRest, "rest");
  for (const { state, heals, free_slots } of replicas)
    t.like({ state, heals, free_slots }, { state: "ready", heals: 0, free_slots: 1 });
});
