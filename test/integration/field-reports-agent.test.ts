/** Field reports about load, resets, prefills and drains: the real edge, real agents, the real decoder. */
import { readdirSync, readFileSync } from "node:fs";
import test from "ava";
import { type AgentUnderTest, atRest, poll, startAgentUnderTest } from "../helpers/agent-process.ts";
import { makeDeepModel } from "../helpers/deep-model.ts";
import { type EdgeBeforeAgent, startEdgeBefore, startEdgeBeforeAll } from "../helpers/edge-before-agent.ts";
import { open } from "../helpers/edge-worker-client.ts";
import { linuxTest } from "../helpers/linux-test.ts";
import { parseScrape } from "../helpers/prometheus.ts";

/** Blocks times this: seconds for a long prompt. */
const deep = makeDeepModel(16);

interface Pair {
  readonly agent: AgentUnderTest;
  readonly edge: EdgeBeforeAgent;
}

const start = async (words: readonly string[]): Promise<Pair> => {
  const agent = await startAgentUnderTest([...words, "--log-level", "error"]);
  return { agent, edge: await startEdgeBefore(agent) };
};

/** Two replicas of the built-in model, and one of a slow model. */
let fast: Pair;
let slow: Pair;
test.before(async () => {
  fast = await start(["--replicas", "2", "--slots", "8", "--heal-cooldown", "0.05"]);
  slow = await start(["--model", deep.path, "--slots", "2"]);
});
test.after.always(async (t) => {
  for (const pair of [fast, slow]) {
    await pair?.edge.stop();
    t.is(await pair?.agent.stop(), 0);
  }
  deep.remove();
});

let questions = 0;
/** A prompt that shares no block of tokens with another one. */
const question = (extra: object = {}) => ({
  model: "default",
  messages: [{ role: "user", content: `${++questions} is a number. Say hello.` }],
  ...extra,
});
/** An answer that goes on to its limit: the end tokens are banned. */
const endless = { logit_bias: { 1021: -100, 1023: -100 } };
const longPrompt = "word ".repeat(900);

/** Runs `count` jobs, at most `atOnce` of them at a time. */
const inParallel = async (count: number, atOnce: number, job: (number: number) => Promise<void>): Promise<void> => {
  let next = 0;
  const worker = async () => {
    while (next < count) await job(next++);
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
};

/** Begins a stream and goes away by reset: at once, at the headers, or after the first bytes. */
const resetOne = async (at: { url: string; apiKey: string }, number: number): Promise<void> => {
  const { request, response } = open(at, { body: JSON.stringify(question({ ...endless, stream: true })) });
  if (number % 3 === 0) await new Promise((resolve) => request.once("finish", resolve));
  else {
    const answer = await response;
    if (number % 3 === 1) await answer.read();
  }
  request.socket?.resetAndDestroy();
};

test.serial("field report 24: 20 context overflows leave the replicas up", async (t) => {
  const { agent, edge } = fast;
  const before = await agent.status();
  for (let times = 0; times < 20; times++) {
    const words = times % 2 === 0 ? 2_100 : 100_000;
    const refused = await edge.chat(question({ messages: [{ role: "user", content: "word ".repeat(words) }] }));
    t.is(refused.status, 400);
    t.is(((await refused.json()) as { error: { code: string } }).error.code, "context_length_exceeded");
  }
  const { replicas } = await agent.until(atRest, "rest");
  const told = (status: typeof before) => status.replicas.map(({ state, heals, served }) => ({ state, heals, served }));
  t.deepEqual(told({ ...before, replicas }), told(before));
  t.true(replicas.every(({ state }) => state === "ready"));
  t.is((await fetch(`${agent.url}/readyz`)).status, 200);
  t.is((await edge.chat(question({ max_tokens: 2 }))).status, 200);
});

test.serial(
  "field report 5: after 200 aborts and a restart of one replica 100 turns are spread within ±20 %",
  async (t) => {
    const { agent, edge } = fast;
    // More at once than there are slots, so that some are aborted while they wait.
    await inParallel(200, 24, (number) => resetOne({ url: edge.url, apiKey: edge.key }, number));
    await agent.until(atRest, "rest after the aborts");
    process.kill(agent.pids.replicas[0] ?? 0, "SIGKILL");
    await agent.until(({ replicas }) => replicas[0]?.state !== "ready", "the loss");
    // The other one is busy meanwhile, and must not be punished for it afterwards.
    await inParallel(40, 4, async () => {
      t.is((await agent.chat(question({ max_tokens: 2 }))).status, 200);
    });
    await agent.until(({ replicas }) => replicas.every(({ state }) => state === "ready"), "two replicas again");
    const before = agent.wire().length;
    // One after the other, and ten at a time.
    for (const atOnce of [1, 10]) {
      await inParallel(50, atOnce, async () => {
        const response = await edge.chat(question({ max_tokens: 4 }));
        await response.text();
        t.is(response.status, 200);
      });
    }
    const turns = agent.wire().slice(before);
    t.is(turns.length, 100);
    const first = turns.filter(({ replica }) => replica === 0).length;
    t.log(`${first} on the replica that was restarted, ${100 - first} on the other`);
    t.true(first >= 40 && first <= 60, String(first));
    await agent.until(atRest, "rest");
  },
);

/** What a client's going away could leave behind in the agent, as seen from outside. */
const footprint = async (agent: AgentUnderTest) => {
  const headers = { authorization: `Bearer ${agent.localKey}` };
  const { series } = parseScrape(await (await fetch(`${agent.url}/metrics`, { headers })).text());
  const residentKiB = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${agent.pids.agent}/status`, "utf8"))?.[1];
  return {
    series: series.length,
    handles: readdirSync(`/proc/${agent.pids.agent}/fd`).length,
    residentBytes: Number(residentKiB) * 1024,
  };
};

const RESETS = 1_000;
/** What V8 may still take after the warm-up (30 MiB were seen, and then no more); 64 KiB a reset that stay are as much. */
const MAX_GROWTH_BYTES = 64 * 1024 * 1024;
/** Labels that a run of resets may see for the first time: statuses, ends of requests. */
const MAX_NEW_SERIES = 8;
/** Sockets and pipes that come and go. */
const MAX_NEW_HANDLES = 16;

linuxTest("field report 6: after 1,000 resets nothing is in flight, and nothing has grown", "/proc", async (t) => {
  const { agent } = fast;
  const at = { url: agent.url, apiKey: agent.localKey };
  const reset = async (number: number) => {
    await resetOne(at, number);
    if (number % 20 !== 0) return;
    const { inflight, waiting, replicas } = await agent.status();
    const counters = [inflight, waiting, ...replicas.flatMap((one) => [one.inflight, one.waiting, one.free_slots])];
    t.true(
      counters.every((counter) => counter >= 0),
      `below 0: ${counters.join()}`,
    );
  };
  // So many before that what is made on demand is there, and the heap has most of its size.
  await inParallel(500, 16, reset);
  await agent.until(atRest, "rest after the first resets");
  const before = await footprint(agent);
  await inParallel(RESETS, 16, reset);
  const { inflight, waiting } = await agent.until(atRest, "rest");
  t.deepEqual([inflight, waiting], [0, 0]);
  const after = await footprint(agent);
  t.log(`before ${JSON.stringify(before)}, after ${JSON.stringify(after)}`);
  t.true(after.series <= before.series + MAX_NEW_SERIES, `${after.series} series`);
  t.true(after.handles <= before.handles + MAX_NEW_HANDLES, `${after.handles} handles`);
  t.true(after.residentBytes - before.residentBytes < MAX_GROWTH_BYTES, `${after.residentBytes} bytes`);
});

for (const [gone, stays] of [
  ["a stream", "a long prefill"],
  ["a long prefill", "a stream"],
] as const) {
  test.serial(
    `field report 8: ${gone} is aborted beside ${stays}: that one finishes, and a probe gets its token`,
    async (t) => {
      const { agent, edge } = slow;
      const turnsBefore = agent.wire().length;
      const own = () => agent.wire().slice(turnsBefore);
      const bodies = {
        "a stream": question({ ...endless, stream: true, max_tokens: 300 }),
        "a long prefill": {
          ...question({ stream: true, max_tokens: 3 }),
          messages: [{ role: "user", content: longPrompt }],
        },
      };
      const send = (body: object) => open({ url: edge.url, apiKey: edge.key }, { body: JSON.stringify(body) });
      const streaming = send(bodies["a stream"]);
      await poll(own, (turns) => (turns[0]?.tokens.length ?? 0) > 2, "tokens of the stream");
      const prefilling = send(bodies["a long prefill"]);
      await poll(own, (turns) => turns.length === 2, "the long prefill");
      const pair = { "a stream": streaming, "a long prefill": prefilling };
      const [streamTurn, prefillTurn] = own();
      t.is(streamTurn?.done, null);
      t.deepEqual(prefillTurn?.tokens, [], "it is in its prefill");
      pair[gone].request.socket?.resetAndDestroy();
      const probe = await edge.chat(question({ max_tokens: 1, ...endless }));
      t.is(((await probe.json()) as { usage: { completion_tokens: number } }).usage.completion_tokens, 1);
      const { bytes } = await (await pair[stays].response).rest();
      t.true(bytes.toString().endsWith("data: [DONE]\n\n"));
      await agent.until(atRest, "rest");
      const finishes = own().map(({ done }) => done?.finish);
      t.is(finishes[gone === "a stream" ? 0 : 1], "cancel");
      t.is(finishes[gone === "a stream" ? 1 : 0], "length");
    },
  );
}

test.serial(
  "field report 29: SIGTERM mid-stream: the stream finishes, and new requests go to the other agent",
  async (t) => {
    const words = ["--model", deep.path, "--log-level", "error"];
    const first = await startAgentUnderTest(words);
    const other = await startAgentUnderTest(words);
    const edge = await startEdgeBeforeAll([first, other]);
    t.teardown(async () => {
      await edge.stop();
      for (const agent of [first, other]) await agent.stop();
    });
    const stream = await edge.chat(question({ ...endless, stream: true, max_tokens: 100 }));
    const reader = stream.body?.pipeThrough(new TextDecoderStream()).getReader();
    let text = (await reader?.read())?.value ?? "";
    const runsIt = (await first.status()).inflight === 1 ? first : other;
    const goesOn = runsIt === first ? other : first;
    runsIt.child.kill("SIGTERM");
    const answers = [];
    for (let times = 0; times < 6; times++) answers.push((await edge.chat(question({ max_tokens: 1 }))).status);
    t.deepEqual(answers, Array<number>(6).fill(200));
    t.true(goesOn.wire().length >= 5, `${goesOn.wire().length} on the other agent`);
    for (let part = await reader?.read(); part?.done === false; part = await reader?.read()) text += part.value;
    t.true(text.endsWith("data: [DONE]\n\n"), text.slice(-200));
    t.is(await runsIt.exited, 0);
  },
);
