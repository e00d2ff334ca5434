/** Heartbeats, and where they make the real edge send requests. The agents are scripted; what they say of themselves is the tests'. */
import { HEARTBEAT_PATH, USAGE_PATH } from "@lockgate/shared-types";
import test from "ava";
import { startEdgeUnderTest } from "../helpers/edge-worker.ts";
import { exchange, open } from "../helpers/edge-worker-client.ts";
import { beatOf } from "../helpers/fleet-agents.ts";
import { beat, countsOf, hear, postSigned, signedAsAgent } from "../helpers/fleet-heartbeats.ts";
import { answerOk } from "../helpers/scripted-agent.ts";

const edge = await startEdgeUnderTest(2, { HEARTBEAT_STALE_MS: "600000" });
test.after.always(() => edge.stop());
test.beforeEach(() => {
  for (const agent of edge.agents) agent.script = answerOk;
});

const header = (index: number, name: string): string | undefined =>
  edge.agents[index]?.requests.at(-1)?.headers.find(([field]) => field === name)?.[1];
const conversations = (count: number) => Array.from({ length: count }, (_, index) => `conversation ${index}`);
const talk = (conversation: string, model = "atlas") =>
  exchange(edge, { body: JSON.stringify({ model, messages: [{ role: "user", content: conversation }] }) });

test.serial("without any heartbeat the configuration alone routes, and default stays default", async (t) => {
  const counts = await countsOf(edge, async () => {
    for (let index = 0; index < 20; index += 1) t.is((await talk(`conversation ${index}`, "default")).status, 200);
  });
  t.is(
    counts.reduce((sum, count) => sum + count, 0),
    20,
  );
  t.true(
    counts.every((count) => count > 0),
    counts.join(),
  );
  t.is(header(0, "x-lockgate-model"), "default");
});

test.serial("a heartbeat that an agent has signed is taken", async (t) => {
  t.is(await beat(edge, 0), 204);
  const agents = await edge.admin("GET", "/agents");
  t.is(agents.status, 200);
  t.regex(JSON.stringify(agents.body), /"ready"/);
});

test.serial(
  "a message that is unsigned, altered, too old, of another agent or replayed gets the same 401",
  async (t) => {
    const body = JSON.stringify(beatOf("agent-0"));
    const of = (rest: object = {}) => ({ path: HEARTBEAT_PATH, body, ...rest });
    const good = await signedAsAgent(edge, 0, of());
    t.is((await postSigned(edge.url, HEARTBEAT_PATH, good, body)).status, 204);
    const old = Date.now() - 120_000;
    const attempts: [string, [string, string][], string, string?][] = [
      ["unsigned", [["content-type", "application/json"]], body],
      ["replayed", good, body],
      ["altered", await signedAsAgent(edge, 0, of()), body.replace("50", "51")],
      ["too old", await signedAsAgent(edge, 0, of({ nowMs: old })), body],
      ["by another agent's key", await signedAsAgent(edge, 1, of({ agent: "agent-0" })), body],
      ["of an unknown agent", await signedAsAgent(edge, 0, of({ agent: "agent-9" })), body],
      ["for another path", await signedAsAgent(edge, 0, of({ path: USAGE_PATH })), body],
      ["added a header", [...(await signedAsAgent(edge, 0, of())), ["x-lockgate-debug", "1"]], body],
    ];
    const texts = new Set<string>();
    for (const [what, headers, sent] of attempts) {
      const response = await postSigned(edge.url, HEARTBEAT_PATH, headers, sent);
      t.is(response.status, 401, what);
      texts.add(await response.text());
    }
    t.is(texts.size, 1);
  },
);

test.serial("a heartbeat that speaks of another agent than its signer, or is none, is a 400", async (t) => {
  for (const body of [JSON.stringify(beatOf("agent-1")), "{}", "not json"]) {
    const headers = await signedAsAgent(edge, 0, { path: HEARTBEAT_PATH, body });
    t.is((await postSigned(edge.url, HEARTBEAT_PATH, headers, body)).status, 400, body);
  }
});

test.serial(
  "a usage message that was taken is refused when it is played again, and a request of the edge's at the agent",
  async (t) => {
    const body = JSON.stringify({ agent_id: "agent-0", records: [] });
    const headers = await signedAsAgent(edge, 0, { path: USAGE_PATH, body });
    t.is((await postSigned(edge.url, USAGE_PATH, headers, body)).status, 400, "signed well, and no batch");
    t.is((await postSigned(edge.url, USAGE_PATH, headers, body)).status, 401);

    await talk("recorded");
    const agent = edge.agents.find(({ requests }) => requests.at(-1)?.body.includes("recorded"));
    const seen = agent?.requests.at(-1);
    const again = await fetch(`${agent?.url}${seen?.url}`, {
      method: "POST",
      headers: (seen?.headers ?? [])
        .filter(([name]) => !["host", "connection", "content-length"].includes(name))
        .map(([name, value]): [string, string] => [name, value]),
      body: new Uint8Array(seen?.body ?? []),
    });
    t.is(again.status, 401);
    t.is(agent?.refusals.pop(), "replayed");
  },
);

test.serial("a message that claims to be large is read up to the bound and refused", async (t) => {
  const body = `{"x":"${"y".repeat(4 * 1024 * 1024)}"}`;
  const headers = await signedAsAgent(edge, 0, { path: HEARTBEAT_PATH, body });
  t.is((await postSigned(edge.url, HEARTBEAT_PATH, headers, body)).status, 413);
});

test.serial("a draining agent gets no new turn once the edge has heard of it", async (t) => {
  await hear(edge, [
    [0, { state: "draining" }],
    [1, {}],
  ]);
  const counts = await countsOf(edge, () => Promise.all(conversations(20).map((conversation) => talk(conversation))));
  t.deepEqual(counts, [0, 20]);
});

test.serial(
  "a request goes to an agent that has its model, default is resolved and signed, a model that nobody has is a 404",
  async (t) => {
    await hear(edge, [
      [0, { models: ["atlas"] }],
      [1, { models: ["birch"] }],
    ]);
    t.deepEqual(await countsOf(edge, () => talk("x", "atlas")), [1, 0]);
    t.deepEqual(await countsOf(edge, () => talk("x", "birch")), [0, 1]);
    t.is(header(1, "x-lockgate-model"), "birch");
    t.deepEqual(await countsOf(edge, () => talk("x", "default")), [1, 0]);
    t.is(header(0, "x-lockgate-model"), "atlas");
    const nowhere = await talk("x", "nowhere");
    t.is(nowhere.status, 404);
    t.like(JSON.parse(nowhere.text), { error: { code: "model_not_found" } });
    t.deepEqual(
      edge.agents.flatMap(({ refusals }) => refusals),
      [],
    );
  },
);

test.serial(
  "field report 13: neither query, header nor a key that comes twice dispatches another model than the checked one",
  async (t) => {
    const counts = await countsOf(edge, async () => {
      const answer = await exchange(edge, {
        path: "/v1/chat/completions?model=atlas",
        headers: { "x-lockgate-model": "atlas", "x-model": "atlas" },
        body: '{"model":"atlas","mod\\u0065l":"birch"}',
      });
      t.is(answer.status, 200);
    });
    t.deepEqual(counts, [0, 1]);
    t.is(header(1, "x-lockgate-model"), "birch");
  },
);

test.serial("a conversation stays on one agent; many conversations use both", async (t) => {
  await hear(edge, [
    [0, { slots: 64 }],
    [1, { slots: 64 }],
  ]);
  const homes: number[] = [];
  for (let conversation = 0; conversation < 20; conversation += 1) {
    const messages: object[] = [{ role: "user", content: `question ${conversation}` }];
    const counts = await countsOf(edge, async () => {
      for (let turn = 0; turn < 3; turn += 1) {
        await exchange(edge, { body: JSON.stringify({ model: "atlas", messages }) });
        messages.push({ role: "assistant", content: "an answer" }, { role: "user", content: `more ${turn}` });
      }
    });
    t.true(counts.includes(3), `conversation ${conversation} went ${counts.join()}`);
    homes.push(counts.indexOf(3));
  }
  t.is(new Set(homes).size, 2);
});

test.serial("many requests of one conversation at once spread by the bound on an agent's load", async (t) => {
  const release = Promise.withResolvers<void>();
  const arrived = Promise.withResolvers<void>();
  let count = 0;
  for (const agent of edge.agents) {
    agent.script = async (reply, request) => {
      count += 1;
      if (count === 40) arrived.resolve();
      await release.promise;
      await answerOk(reply, request);
    };
  }
  const body = JSON.stringify({ model: "atlas", messages: [{ role: "user", content: "the same" }] });
  const counts = await countsOf(edge, async () => {
    const answers = Array.from({ length: 40 }, () => open(edge, { body }).response);
    await arrived.promise;
    release.resolve();
    for (const answer of await Promise.all(answers)) t.is(answer.status, 200);
  });
  t.true(Math.max(...counts) <= 25, counts.join());
});

test.serial("an operator's word takes an agent out, and brings it back", async (t) => {
  const set = async (disabled: boolean) => {
    t.is((await edge.admin("PATCH", "/agents/agent-0", { disabled })).status, 200);
    await hear(edge, [
      [0, { slots: 64 }],
      [1, { slots: 64 }],
    ]);
  };
  const talkAll = () => countsOf(edge, () => Promise.all(conversations(24).map((content) => talk(content))));
  await set(true);
  t.deepEqual(await talkAll(), [0, 24]);
  await set(false);
  const [first = 0, second = 0] = await talkAll();
  t.true(first > 0 && second > 0, `${first}, ${second}`);
});

test.serial("two workers of one class share the table of agents and the nonces", async (t) => {
  const shared = await startEdgeUnderTest(2, {}, { workers: 2 });
  try {
    const body = JSON.stringify(beatOf("agent-0", { state: "draining" }));
    const headers = await signedAsAgent(shared, 0, { path: HEARTBEAT_PATH, body });
    const [first = "", second = ""] = shared.urls;
    const statuses = await Promise.all(
      [first, second].map(async (url) => (await postSigned(url, HEARTBEAT_PATH, headers, body)).status),
    );
    t.deepEqual(statuses.toSorted(), [204, 401], "the same message at both: one takes it");
    await hear(shared, [[1, {}]]);
    for (const url of [first, second]) {
      const counts = await countsOf(shared, async () => {
        for (const question of conversations(8)) {
          const body = JSON.stringify({ model: "atlas", messages: [{ role: "user", content: question }] });
          t.is((await exchange({ ...shared, url }, { body })).status, 200);
        }
      });
      t.deepEqual(counts, [0, 8]);
    }
  } finally {
    await shared.stop();
  }
});

test.serial(
  "a Fleet object that lost its memory takes no message from before, and is told anew by the next heartbeats",
  async (t) => {
    const fresh = await startEdgeUnderTest(2);
    try {
      const body = JSON.stringify(beatOf("agent-0"));
      const old = await signedAsAgent(fresh, 0, { path: HEARTBEAT_PATH, body, nowMs: Date.now() - 5_000 });
      t.is(
        (await postSigned(fresh.url, HEARTBEAT_PATH, old, body)).status,
        204,
        "the first object of all has no predecessor",
      );
      await fresh.admin("PATCH", "/agents/agent-1", { disabled: true });
      await fresh.worker.evict("Fleet", "fleet");
      t.is((await postSigned(fresh.url, HEARTBEAT_PATH, old, body)).status, 401);
      // Whole seconds count: a message of the second before the start is refused, and the next one is not.
      const limit = Date.now() + 20_000;
      let status = 0;
      while (status !== 204 && Date.now() < limit) status = await beat(fresh, 0);
      t.is(status, 204);
      const { body: agents } = await fresh.admin("GET", "/agents");
      t.regex(JSON.stringify(agents), /"disabled":true/, "what an operator has set has lasted");
    } finally {
      await fresh.stop();
    }
  },
);

test.serial("an agent behind a service binding is reached by the binding's name", async (t) => {
  const [agent] = edge.agents;
  const [signing] = edge.signing;
  if (agent === undefined || signing === undefined) return t.fail();
  const bound = await startEdgeUnderTest(
    0,
    {
      AGENTS: JSON.stringify([{ name: "private", binding: "GPU_1", keyIds: [signing.keyId] }]),
      AGENT_SIGNING_KEYS: JSON.stringify({ [signing.keyId]: Buffer.from(signing.secret).toString("base64url") }),
      AGENT_ACCESS_TOKENS: JSON.stringify({ private: { clientId: "id.access", clientSecret: "s3cret-token" } }),
    },
    { services: { GPU_1: agent.url } },
  );
  try {
    const [count] = await countsOf(edge, async () => {
      const answer = await exchange(bound, { body: '{"model":"atlas"}' });
      t.is(answer.status, 200);
      t.is(answer.text, '{"ok":true}');
    });
    t.is(count, 1);
    t.is(header(0, "cf-access-client-id"), "id.access");
    t.is(header(0, "cf-access-client-secret"), "s3cret-token");
    t.notRegex(bound.log.join("\n"), /s3cret-token/);
  } finally {
    await bound.stop();
  }
});
