/** What the real edge does when agents fail, refuse or fall silent: where a request goes then, and where it must not go any more. */
import { once } from "node:events";
import test from "ava";
import { provisionKey } from "../helpers/admin-client.ts";
import { type EdgeUnderTest, startEdgeUnderTest } from "../helpers/edge-worker.ts";
import { exchange, open } from "../helpers/edge-worker-client.ts";
import { countsOf, hear } from "../helpers/fleet-heartbeats.ts";
import { answerOk, type Script } from "../helpers/scripted-agent.ts";

const BREAKER_OPEN_MS = 1_500;
const HEADERS_TIMEOUT_MS = 1_500;
/** From edge/src/fleet/breaker.ts: failures that open a breaker. */
const OPEN_AT = 5;
const COLD_ISOLATES = 6;

const stream = { "content-type": "text/event-stream" };
const jsonError = { "content-type": "application/json", "retry-after": "3" };
const answerWith =
  (status: number): Script =>
  async (reply) => {
    reply.head(status, jsonError);
    await reply.write('{"error":{"code":"from_the_agent"}}');
    reply.end();
  };
const resetAtOnce: Script = (reply) => reply.reset();

/** Breakers that are never open for long: for what is about single failures. */
const pair = await startEdgeUnderTest(2, { BREAKER_OPEN_MS: "1", HEARTBEAT_STALE_MS: "600000" });
const many = await startEdgeUnderTest(5, { BREAKER_OPEN_MS: "1" });
const impatient = await startEdgeUnderTest(2, {
  BREAKER_OPEN_MS: "300000",
  UPSTREAM_HEADERS_TIMEOUT_MS: String(HEADERS_TIMEOUT_MS),
});
const single = await startEdgeUnderTest(1, { BREAKER_OPEN_MS: String(BREAKER_OPEN_MS), HEARTBEAT_STALE_MS: "1" });
test.after.always(() => Promise.all([pair, many, impatient, single].map((edge) => edge.stop())));

/** An edge of its own for a test that needs a fresh one. */
const withEdge = async (count: number, env: object, work: (edge: EdgeUnderTest) => Promise<void>): Promise<void> => {
  const edge = await startEdgeUnderTest(count, env);
  try {
    await work(edge);
  } finally {
    await edge.stop();
  }
};
const setAll = (edge: EdgeUnderTest, script: Script): void => {
  for (const agent of edge.agents) agent.script = script;
};
const total = (counts: readonly number[]): number => counts.reduce((sum, count) => sum + count, 0);
const chatBody = (content: string) => JSON.stringify({ model: "atlas", messages: [{ role: "user", content }] });

/** Whichever agent is asked first does `first`, every later request gets an answer. */
const firstThenOk = (edge: EdgeUnderTest, first: Script): void => {
  let asked = 0;
  setAll(edge, (reply, request) => {
    asked += 1;
    return asked === 1 ? first(reply, request) : answerOk(reply, request);
  });
};

test.serial(
  "field report 23: a failure before the headers is tried elsewhere; after headers or a chunk it shows, and nothing is tried",
  async (t) => {
    const edge = pair;
    firstThenOk(edge, resetAtOnce);
    const before = await countsOf(edge, async () => {
      const answer = await exchange(edge);
      t.is(answer.status, 200);
      t.is(answer.text, '{"ok":true}');
    });
    t.deepEqual(before, [1, 1]);

    for (const [what, sent] of [
      ["after headers", ""],
      ["after a chunk", "data: 1\n\n"],
    ] as const) {
      firstThenOk(edge, async (reply) => {
        reply.head(200, stream);
        if (sent !== "") await reply.write(sent);
        reply.reset();
      });
      const counts = await countsOf(edge, async () => {
        const answer = await exchange(edge);
        t.is(answer.status, 200, what);
        t.false(answer.clean, what);
        t.true(sent.startsWith(answer.text), what);
      });
      t.is(total(counts), 1, what);
    }
  },
);

test.serial("an agent that says nothing in time is let go, and another one is asked", async (t) => {
  const edge = impatient;
  firstThenOk(edge, () => undefined);
  const counts = await countsOf(edge, async () => t.is((await exchange(edge)).status, 200));
  t.deepEqual(counts, [1, 1]);
  await Promise.any(edge.agents.map(({ requests }) => requests[0]?.aborted ?? Promise.reject(new Error("none"))));
  setAll(edge, () => undefined);
  t.is((await exchange(edge)).status, 504);
  // Each of these is one failure of either agent.
  await Promise.all(Array.from({ length: OPEN_AT }, () => exchange(edge)));
  t.is((await exchange(edge)).status, 503, "silence opens a breaker too");
});

test.serial("a draining agent's 503 is no client's business while another agent takes the turn", async (t) => {
  const edge = many;
  firstThenOk(edge, answerWith(503));
  const counts = await countsOf(edge, async () => t.is((await exchange(edge)).status, 200));
  t.is(total(counts), 2);
});

test.serial(
  "a full queue sends the turn to an agent with a free slot; without one the client gets the 429 as it is",
  async (t) => {
    const edge = pair;
    setAll(edge, answerOk);
    await hear(edge, [
      [0, {}],
      [1, {}],
    ]);
    firstThenOk(edge, answerWith(429));
    t.deepEqual(
      await countsOf(edge, async () => t.is((await exchange(edge, { body: chatBody("x") })).status, 200)),
      [1, 1],
    );
    setAll(edge, answerOk);
    await hear(edge, [
      [0, { free: 0 }],
      [1, { free: 0 }],
    ]);
    setAll(edge, answerWith(429));
    const counts = await countsOf(edge, async () => {
      const answer = await exchange(edge, { body: chatBody("x") });
      t.is(answer.status, 429);
      t.is(answer.text, '{"error":{"code":"from_the_agent"}}');
      t.is(answer.headers["retry-after"], "3");
    });
    t.is(total(counts), 1);
  },
);

test.serial("no request is tried at more than three agents", async (t) => {
  const edge = many;
  setAll(edge, resetAtOnce);
  const counts = await countsOf(edge, async () => t.is((await exchange(edge)).status, 502));
  t.is(total(counts), 3);
  t.true(counts.every((count) => count <= 1));
});

test.serial(
  "a breaker opens after failures of each kind, lets one request try, and closes when it is answered",
  async (t) => {
    const kinds: readonly (readonly [string, Script])[] = [
      ["500", answerWith(500)],
      ["a reset before headers", resetAtOnce],
      [
        "a reset in mid-stream",
        async (reply) => {
          reply.head(200, stream);
          await reply.write("data: 1\n\n");
          reply.reset();
        },
      ],
    ];
    for (const [what, script] of kinds) {
      const edge = single;
      setAll(edge, script);
      const statuses: number[] = [];
      // The end of a stream is told behind the answer, so it may take one more.
      while (statuses.at(-1) !== 503 && statuses.length < 2 * OPEN_AT) statuses.push((await exchange(edge)).status);
      t.is(statuses.at(-1), 503, what);
      t.not(statuses[0], 503, what);
      const askedWhenOpen = edge.agents[0]?.requests.length ?? 0;

      // While it is open nothing gets through; then one request at a time tries.
      const release = Promise.withResolvers<void>();
      const probed = Promise.withResolvers<void>();
      setAll(edge, async (reply, request) => {
        probed.resolve();
        await release.promise;
        await answerOk(reply, request);
      });
      let settled = false;
      void probed.promise.then(() => {
        settled = true;
      });
      const waiting: Promise<{ status: number }>[] = [];
      while (!settled) {
        const one = exchange(edge);
        waiting.push(one);
        await Promise.race([one, probed.promise]);
      }
      t.is((await exchange(edge)).status, 503, `${what}: one probe is enough`);
      t.is(edge.agents[0]?.requests.length, askedWhenOpen + 1, what);
      release.resolve();
      const waited = (await Promise.all(waiting)).map(({ status }) => status);
      t.deepEqual([...new Set(waited)].toSorted(), waited.length > 1 ? [200, 503] : [200], what);
      t.is(waited.filter((status) => status === 200).length, 1, what);
      t.is((await exchange(edge)).status, 200, `${what}: closed again`);
    }
  },
);

test.serial("field report 24: answers that are the client's own fault leave an agent in service", async (t) => {
  const edge = single;
  for (const status of [400, 404, 408, 413, 429]) {
    setAll(edge, answerWith(status));
    for (let index = 0; index < 20; index += 1) t.is((await exchange(edge)).status, status);
  }
  setAll(edge, answerOk);
  t.is((await exchange(edge)).status, 200);
});

test.serial(
  "field report 24: an agent that was silent for too long, with work in flight, stays routable",
  async (t) => {
    const edge = single;
    await hear(edge, [[0, { free: 0, inflight: 4 }]]);
    t.is((await exchange(edge, { body: chatBody("x") })).status, 200);
  },
);

test.serial("an agent whose breaker is open is passed over while others serve", async (t) => {
  await withEdge(2, { BREAKER_OPEN_MS: "300000" }, async (edge) => {
    const [bad, good] = edge.agents;
    if (bad === undefined || good === undefined) return t.fail();
    bad.script = resetAtOnce;
    good.script = answerOk;
    for (let index = 0; bad.requests.length < OPEN_AT && index < 500; index += 1) {
      t.is((await exchange(edge, { body: chatBody(`question ${index}`) })).status, 200);
    }
    t.deepEqual(
      await countsOf(edge, async () => {
        for (let index = 0; index < 20; index += 1) {
          t.is((await exchange(edge, { body: chatBody(`later ${index}`) })).status, 200);
        }
      }),
      [0, 20],
    );
  });
});

test.serial("only a key that may know is told where its request ran", async (t) => {
  const edge = pair;
  const key = await provisionKey(edge.admin, { name: "operator", scopes: ["chat", "models", "diagnostics"] });
  const say: Script = async (reply) => {
    reply.head(200, { "content-type": "application/json", "x-lockgate-replica": "7", "x-lockgate-secret": "x" });
    await reply.write('{"ok":true}');
    reply.end();
  };
  setAll(edge, say);
  const told = await exchange({ ...edge, apiKey: key.text });
  t.regex(String(told.headers["x-lockgate-agent"]), /^agent-[01]$/);
  t.is(told.headers["x-lockgate-replica"], "7");
  t.is(told.headers["x-lockgate-attempts"], "1");
  t.is(told.headers["x-lockgate-secret"], undefined);
  firstThenOk(edge, resetAtOnce);
  t.is((await exchange({ ...edge, apiKey: key.text })).headers["x-lockgate-attempts"], "2");

  setAll(edge, say);
  const untold = await exchange(edge);
  t.deepEqual(
    Object.keys(untold.headers).filter((name) => name.startsWith("x-lockgate")),
    [],
  );
});

test.serial(
  "field report 26: of requests that come to a cold isolate at once all but the aborted one finish",
  async (t) => {
    // The first worker has made the key; the others have done nothing yet.
    const edge = await startEdgeUnderTest(1, {}, { workers: 1 + COLD_ISOLATES });
    t.teardown(() => edge.stop());
    for (const url of edge.urls.slice(1)) {
      const first = open({ ...edge, url });
      await once(first.request, "finish");
      const others = Array.from({ length: 30 }, () => open({ ...edge, url }));
      await Promise.all(others.map(({ request }) => once(request, "finish")));
      first.request.socket?.resetAndDestroy();
      for (const { response } of others) t.is((await response).status, 200);
    }
  },
);
