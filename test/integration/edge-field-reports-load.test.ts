/** Field reports about what is left behind by requests that broke off: what an edge counts for its agents and keys, and how it spreads afterwards. */
import test, { type ExecutionContext } from "ava";
import { provisionKey } from "../helpers/admin-client.ts";
import { poll } from "../helpers/agent-process.ts";
import { startEdgeUnderTest } from "../helpers/edge-worker.ts";
import { exchange, open, readBytes } from "../helpers/edge-worker-client.ts";
import { countsOf, hear } from "../helpers/fleet-heartbeats.ts";
import { answerOk, type Script } from "../helpers/scripted-agent.ts";

/** Breakers are never open for long, heartbeats never stale, and no usage record is waited for: none ever comes here. */
const edge = await startEdgeUnderTest(2, { BREAKER_OPEN_MS: "1", HEARTBEAT_STALE_MS: "600000", LOST_AFTER_MS: "1" });
test.after.always(() => edge.stop());

/** Requests that are placed afterwards. The place of a conversation is a draw: of so many, 20 % off the half is six standard deviations. */
const FRESH_REQUESTS = 1_000;
const AT_ONCE = 10;
const RESETS = 1_000;
const stream = { "content-type": "text/event-stream" };

const setAll = (script: Script): void => {
  for (const agent of edge.agents) agent.script = script;
};
const chatBody = (content: string) => JSON.stringify({ model: "atlas", messages: [{ role: "user", content }] });

/** `count` requests of one key, AT_ONCE at a time. */
const sendMany = async (count: number, send: (index: number) => Promise<unknown>): Promise<void> => {
  let next = 0;
  const work = async (): Promise<void> => {
    while (next < count) {
      const index = next;
      next += 1;
      await send(index);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
};

/** Each of the two agents gets its half, within a fifth of it. */
const assertEvenSpread = async (t: ExecutionContext): Promise<void> => {
  setAll(answerOk);
  const counts = await countsOf(edge, () =>
    sendMany(FRESH_REQUESTS, (index) => exchange(edge, { body: chatBody(`fresh ${index}`) })),
  );
  t.log(counts.join(" and "));
  t.is(
    counts.reduce((sum, count) => sum + count, 0),
    FRESH_REQUESTS,
  );
  t.true(Math.min(...counts) >= 0.8 * (FRESH_REQUESTS / 2), counts.join());
};

test.serial(
  "field report 5: after 200 aborts and a restart of one agent's replica the next requests are spread within ±20 %",
  async (t) => {
    await hear(edge, [
      [0, { slots: 64 }],
      [1, { slots: 64 }],
    ]);
    const aborted: Promise<void>[] = [];
    setAll(async (reply, request) => {
      aborted.push(request.aborted);
      reply.head(200, stream);
      await reply.write("data: 1\n\n");
    });
    await sendMany(200, async () => {
      const answer = await open(edge, { body: chatBody("aborted") }).response;
      await readBytes(answer, 9);
      answer.socket.resetAndDestroy();
    });
    await Promise.all(aborted);
    t.is(aborted.length, 200);
    setAll(answerOk);
    const healing = { index: 0, state: "healing", slots: 64, free_slots: 0 } as const;
    await hear(edge, [
      [0, { state: "unavailable", replicas: [healing], free_slots: 0, inflight: 0 }],
      [1, { slots: 64 }],
    ]);
    t.deepEqual(await countsOf(edge, () => exchange(edge, { body: chatBody("aborted") })), [0, 1]);
    await hear(edge, [
      [1, { slots: 64 }],
      [0, { slots: 64 }],
    ]);
    await assertEvenSpread(t);
  },
);

test.serial(
  "field report 6: 1,000 resets of the agents leave no lease, no open request and nothing in the way of the next ones",
  async (t) => {
    await hear(edge, [
      [0, { slots: 64 }],
      [1, { slots: 64 }],
    ]);
    const key = await provisionKey(edge.admin, { limits: { concurrency: RESETS } });
    let asked = 0;
    setAll(async (reply) => {
      asked += 1;
      if (asked % 2 === 0) return reply.reset();
      reply.head(200, stream);
      await reply.write("data: 1\n\n");
      reply.reset();
    });
    const statuses = new Set<number>();
    for (let round = 0; asked < RESETS; round += 1) {
      await sendMany(100, async (index) => {
        const body = chatBody(`reset ${round} ${index}`);
        statuses.add((await exchange({ ...edge, apiKey: key.text }, { body })).status);
      });
    }
    // 200 or 502 by whether headers came first, 503 where both breakers were open for the moment.
    t.deepEqual(
      [...statuses].filter((status) => ![200, 502, 503].includes(status)),
      [],
    );
    const { leases, open_requests } = await poll(
      async () => (await edge.admin("GET", `/keys/${key.id}`)).body.guard,
      (guard) => guard.leases === 0 && guard.open_requests.length === 0,
      "the end of all requests",
    );
    t.deepEqual([leases, open_requests], [0, []]);
    // Each of the breakers lets one request try, and closes with it.
    setAll(answerOk);
    const tryAgain = () =>
      countsOf(edge, () => sendMany(AT_ONCE, (index) => exchange(edge, { body: chatBody(`again ${index}`) })));
    await poll(tryAgain, (counts) => counts.reduce((sum, count) => sum + count, 0) === AT_ONCE, "closed breakers");
    await assertEvenSpread(t);
  },
);
