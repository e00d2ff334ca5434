/** The queue of the real agent: full, late, asked about, and behind a replica that dies. The model is slow, so that states last. */
import test from "ava";
import { type AgentUnderTest, atRest, startAgentUnderTest } from "../helpers/agent-process.ts";
import { makeDeepModel } from "../helpers/deep-model.ts";

const deep = makeDeepModel(32);
test.after.always(() => deep.remove());

/** An answer that goes on until it is cut off. */
const endless = (content: string, maxTokens = 2000) => ({
  model: "default",
  stream: true,
  max_tokens: maxTokens,
  messages: [{ role: "user", content }],
  logit_bias: { 1021: -100, 1023: -100 },
});

/** A client that holds its stream until it is told to go. */
const hold = (agent: AgentUnderTest, content: string) => {
  const abort = new AbortController();
  const response = agent.chat(endless(content), { signal: abort.signal });
  response.catch(() => {});
  return { response, leave: () => abort.abort() };
};

const withAgent = async (words: readonly string[], run: (agent: AgentUnderTest) => Promise<void>): Promise<void> => {
  const agent = await startAgentUnderTest(["--model", deep.path, ...words]);
  try {
    await run(agent);
  } finally {
    agent.child.kill("SIGKILL");
    await agent.exited;
  }
};

test.serial("a full queue: 429 with retry-after, and who waits is served in order", async (t) => {
  await withAgent(["--replicas", "1", "--queue", "2"], async (agent) => {
    // One short turn first, so that the agent has measured itself.
    t.is((await agent.chat({ ...endless("Hi", 2), stream: false })).status, 200);
    const holder = hold(agent, "Say hello.");
    await agent.until(({ replicas }) => replicas[0]?.inflight === 1, "the holder's turn");
    const waiting = ["one", "two"].map((content) => agent.chat({ ...endless(content, 2), stream: false }));
    await agent.until((status) => status.waiting === 2, "two turns that wait");
    const refused = await agent.chat(endless("three", 2));
    t.is(refused.status, 429);
    const body = (await refused.json()) as { error: { code: string } };
    t.is(body.error.code, "rate_limit_exceeded");
    const seconds = Number(refused.headers.get("retry-after"));
    t.true(Number.isInteger(seconds) && seconds >= 1 && seconds <= 60, `retry-after ${seconds}`);
    t.true(Number(refused.headers.get("retry-after-ms")) > 0);
    holder.leave();
    t.deepEqual(
      (await Promise.all(waiting)).map(({ status }) => status),
      [200, 200],
    );
    await agent.until(atRest, "rest");
    const prompts = agent.wire().slice(-2);
    t.true((prompts[0]?.genLine ?? 0) < (prompts[1]?.genLine ?? 0));
  });
});

test.serial(
  "a deadline that passes while a turn waits ends it with a typed error, and it never reaches the engine",
  async (t) => {
    await withAgent(["--replicas", "1"], async (agent) => {
      const holder = hold(agent, "Say hello.");
      await agent.until(({ replicas }) => replicas[0]?.inflight === 1, "the holder's turn");
      const headers = {
        authorization: `Bearer ${agent.localKey}`,
        "content-type": "application/json",
        "x-stainless-timeout": "1",
      };
      const late = await agent.chat({ ...endless("late", 2), stream: false }, { headers });
      t.is(late.status, 408);
      t.is(((await late.json()) as { error: { code: string } }).error.code, "deadline_exceeded");
      const lateStream = await (await agent.chat(endless("late", 2), { headers })).text();
      t.regex(lateStream, /"code":"deadline_exceeded"/);
      t.false(lateStream.includes("[DONE]"));
      holder.leave();
      await agent.until(atRest, "rest");
      t.is(agent.wire().length, 1, "the holder's alone");
    });
  },
);

test.serial("who asks for it hears its place in the queue, in comments", async (t) => {
  await withAgent(["--replicas", "1"], async (agent) => {
    const holder = hold(agent, "Say hello.");
    await agent.until(({ replicas }) => replicas[0]?.inflight === 1, "the holder's turn");
    const ask = (content: string) =>
      agent.chat(endless(content, 2), {
        headers: {
          authorization: `Bearer ${agent.localKey}`,
          "content-type": "application/json",
          "x-queue-position": "1",
        },
      });
    const first = ask("first");
    await agent.until(({ waiting }) => waiting === 1, "the first that waits");
    const second = await ask("second");
    const reader = (second.body ?? new ReadableStream<Uint8Array>()).pipeThrough(new TextDecoderStream()).getReader();
    let heard = "";
    while (!heard.includes("queue-position=1")) heard += (await reader.read()).value ?? "";
    holder.leave();
    for (let next = await reader.read(); !next.done; next = await reader.read()) heard += next.value;
    t.true(heard.endsWith("data: [DONE]\n\n"));
    t.regex(await (await first).text(), /data: \[DONE\]\n\n$/);
    await agent.until(atRest, "rest");
  });
});

test.serial(
  "field report 31: a replica dies: who waits is served by the other; when the last one dies, who waits is told at once",
  async (t) => {
    await withAgent(["--replicas", "2", "--heal-cooldown", "600"], async (agent) => {
      const holders = [hold(agent, "Say hello."), hold(agent, "Say goodbye.")];
      const { replicas } = await agent.until(
        (status) => status.replicas.every(({ inflight }) => inflight === 1),
        "two turns",
      );
      const waiting = agent.chat({ ...endless("waiting", 2), stream: false });
      await agent.until((status) => status.waiting === 1, "a turn that waits");
      process.kill(replicas[0]?.pid ?? 0, "SIGKILL");
      await agent.until((status) => status.replicas[0]?.state !== "ready", "the loss");
      for (const holder of holders) holder.leave();
      t.is((await waiting).status, 200);
      t.is(agent.wire().at(-1)?.replica, 1);
      const last = hold(agent, "Say hello.");
      await agent.until((status) => status.replicas[1]?.inflight === 1, "a turn on the last replica");
      const stranded = agent.chat({ ...endless("stranded", 2), stream: false });
      const strandedStream = agent.chat(endless("stranded", 2));
      await agent.until((status) => status.waiting === 2, "turns that wait for the last replica");
      process.kill(replicas[1]?.pid ?? 0, "SIGKILL");
      t.is((await stranded).status, 503);
      t.regex(await (await strandedStream).text(), /"code":"overloaded"/);
      const after = await agent.chat(endless("after", 2));
      t.is(after.status, 503, await after.text());
      last.leave();
    });
  },
);
