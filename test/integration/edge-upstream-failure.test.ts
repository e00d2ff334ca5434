import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import test from "ava";
import { onlyAgent, startEdgeUnderTest } from "../helpers/edge-worker.ts";
import { exchange } from "../helpers/edge-worker-client.ts";
import { answerOk, type RecordedRequest, type ScriptedAgent } from "../helpers/scripted-agent.ts";

const HEADERS_TIMEOUT_MS = 500;

// Breakers that are never open for long: these tests are about single failures.
const edge = await startEdgeUnderTest(1, { BREAKER_OPEN_MS: "1" });
const pair = await startEdgeUnderTest(2, { BREAKER_OPEN_MS: "1" });
const impatient = await startEdgeUnderTest(1, { UPSTREAM_HEADERS_TIMEOUT_MS: String(HEADERS_TIMEOUT_MS) });
const agent = onlyAgent(edge);
test.after.always(() => Promise.all([edge.stop(), pair.stop(), impatient.stop()]));

const codeOf = (text: string): unknown => (JSON.parse(text) as { error: { code: unknown } }).error.code;
const header = (request: RecordedRequest | undefined, wanted: string) =>
  request?.headers.find(([name]) => name === wanted)?.[1];

const sent = "data: 1\n\ndata: 2\n\n";
for (const [title, die] of [
  ["a reset", "reset"],
  ["a plain close", "close"],
] as const) {
  test.serial(`an agent's death in mid-stream by ${title} is never a clean end`, async (t) => {
    const before = agent.requests.length;
    agent.script = async (reply) => {
      reply.head(200, { "content-type": "text/event-stream" });
      await reply.write(sent);
      reply[die]();
    };
    const answer = await exchange(edge);
    t.is(answer.status, 200);
    t.false(answer.clean);
    t.true(sent.startsWith(answer.text));
    t.is(agent.requests.length, before + 1, "nothing is tried again once headers came");
  });
}

test.serial("a body that ends before its content-length is never a clean end", async (t) => {
  agent.script = async (reply) => {
    reply.head(200, { "content-type": "application/json", "content-length": "1000" });
    await reply.write("{}");
    reply.close();
  };
  t.false((await exchange(edge)).clean);
});

test.serial("an agent that dies before its headers costs one failover, then 502", async (t) => {
  const before = agent.requests.length;
  agent.script = (reply) => reply.reset();
  const answer = await exchange(edge);
  t.is(answer.status, 502);
  t.is(codeOf(answer.text), "upstream_failed");
  t.is(agent.requests.length - before, 2);
});

test.serial("failover goes to the other agent, with the same request signed anew", async (t) => {
  const tried: [ScriptedAgent, RecordedRequest][] = [];
  for (const one of pair.agents) {
    one.script = (reply, request) => {
      tried.push([one, request]);
      return tried.length === 1 ? reply.reset() : answerOk(reply, request);
    };
  }
  const answer = await exchange(pair, { body: '{"model":"m"}' });
  t.is(answer.status, 200);
  t.is(tried.length, 2);
  const [first, second] = tried;
  t.not(first?.[0], second?.[0]);
  t.deepEqual(first?.[1].body, second?.[1].body);
  t.is(header(first?.[1], "x-lockgate-request-id"), header(second?.[1], "x-lockgate-request-id"));
  t.not(header(first?.[1], "signature-input"), header(second?.[1], "signature-input"));
  t.is(pair.agents.flatMap((one) => one.refusals).length, 0);
});

/** Every agent of the pair answers with `status`; returns how many were asked, and what the client got. */
const refusedByAll = async (status: number) => {
  const before = pair.agents.reduce((sum, one) => sum + one.requests.length, 0);
  for (const one of pair.agents) {
    one.script = async (reply) => {
      reply.head(status, {
        "content-type": "application/json",
        "retry-after": "7",
        "x-ratelimit-limit-requests": "9",
        server: "x",
      });
      await reply.write('{"error":{"code":"from_the_agent"}}');
      reply.end();
    };
  }
  const answer = await exchange(pair);
  return { answer, asked: pair.agents.reduce((sum, one) => sum + one.requests.length, 0) - before };
};

test.serial(
  "an agent's refusal is passed on with its status; only a 503 and a 429 are reasons to ask another",
  async (t) => {
    for (const [status, expected] of [
      [400, 1],
      [500, 1],
      [429, 2],
      [503, 2],
    ] as const) {
      const { answer, asked } = await refusedByAll(status);
      t.is(answer.status, status);
      t.is(answer.text, '{"error":{"code":"from_the_agent"}}');
      t.is(answer.headers["retry-after"], "7");
      t.is(answer.headers["x-ratelimit-limit-requests"], "9");
      t.is(answer.headers.server, undefined);
      t.is(asked, expected, String(status));
    }
  },
);

test.serial("what somebody in front of an agent answers never reaches the client", async (t) => {
  for (const status of [302, 403, 502, 504, 530]) {
    const { answer, asked } = await refusedByAll(status);
    t.is(answer.status, 502, String(status));
    t.is(codeOf(answer.text), "upstream_failed");
    t.is(asked, 2);
  }
});

test.serial("an agent that sends no headers in time gives 504, is let go, and is not tried again", async (t) => {
  const silent = onlyAgent(impatient);
  const before = silent.requests.length;
  silent.script = () => undefined;
  const answer = await exchange(impatient);
  t.is(answer.status, 504);
  t.is(codeOf(answer.text), "upstream_timeout");
  t.is(silent.requests.length, before + 1);
  await silent.requests.at(-1)?.aborted;
});

test.serial("field report 25: the wait for headers does not bound the body", async (t) => {
  onlyAgent(impatient).script = async (reply) => {
    reply.head(200, { "content-type": "text/event-stream" });
    setTimeout(() => {
      void reply.write("data: late\n\n").then(() => reply.end());
    }, 2 * HEADERS_TIMEOUT_MS);
  };
  const answer = await exchange(impatient);
  t.true(answer.clean);
  t.is(answer.text, "data: late\n\n");
});

test.serial("an agent that cannot be connected to gives 502", async (t) => {
  const placeholder = createServer().listen(0, "127.0.0.1");
  await once(placeholder, "listening");
  const { port } = placeholder.address() as AddressInfo;
  placeholder.close();
  await once(placeholder, "close");
  const agents = JSON.stringify([{ name: "gone", url: `http://127.0.0.1:${port}`, keyIds: ["k1"] }]);
  const keys = JSON.stringify({ k1: randomBytes(32).toString("base64url") });
  const lonely = await startEdgeUnderTest(0, { AGENTS: agents, AGENT_SIGNING_KEYS: keys });
  try {
    const answer = await exchange(lonely);
    t.is(answer.status, 502);
    t.notRegex(answer.text, /127\.0\.0\.1|gone/);
  } finally {
    await lonely.stop();
  }
});

test.serial("without an agent configured the answer is 503 with a time to come back", async (t) => {
  const empty = await startEdgeUnderTest(0);
  try {
    const answer = await exchange(empty);
    t.is(answer.status, 503);
    t.is(codeOf(answer.text), "overloaded");
    t.regex(answer.headers["retry-after"] ?? "", /^[1-9]\d*$/);
    t.regex(String(answer.headers["retry-after-ms"]), /^[1-9]\d*$/);
  } finally {
    await empty.stop();
  }
});
