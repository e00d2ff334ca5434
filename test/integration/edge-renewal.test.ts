/** A request that runs for longer than its lease is renewed: the one test that has to wait for it. */
import test from "ava";
import { provisionKey } from "../helpers/admin-client.ts";
import { onlyAgent, startEdgeUnderTest } from "../helpers/edge-worker.ts";
import { exchange, open } from "../helpers/edge-worker-client.ts";
import { parseScrape } from "../helpers/prometheus.ts";
import { answerOk } from "../helpers/scripted-agent.ts";

const edge = await startEdgeUnderTest();
const agent = onlyAgent(edge);
test.after.always(() => edge.stop());

const body = '{"model":"m","stream":true}';
const KEEP_ALIVE_MS = 500;
/** From edge/src/upstream/forward.ts. */
const RENEW_MS = 40_000;
const POLL_MS = 250;
/** Counts are told to the metrics behind answers, within two seconds. */
const LIMIT_MS = RENEW_MS + 30_000;

const renewals = async (): Promise<number> => {
  const response = await fetch(`${edge.url}/metrics`, { headers: { authorization: `Bearer ${edge.adminToken}` } });
  const { series, value } = parseScrape(await response.text());
  const labels = { call: "renew", result: "ok" };
  const name = "lockgate:edge_guard_calls_total";
  return series.some((one) => one.name === name && one.labels.call === "renew") ? value(name, labels) : 0;
};

test("a stream that outlives the renewal's interval is renewed, holds its lease, and gives it back at its end", async (t) => {
  t.timeout(2 * LIMIT_MS);
  const key = await provisionKey(edge.admin, { limits: { concurrency: 1 } });
  const client = { url: edge.url, apiKey: key.text };
  const mayEnd = Promise.withResolvers<void>();
  agent.script = async (reply) => {
    reply.head(200, { "content-type": "text/event-stream" });
    await reply.write('data: {"a":1}\n\n');
    reply.keepAliveEvery(KEEP_ALIVE_MS);
    await mayEnd.promise;
    await reply.write("data: [DONE]\n\n");
    reply.end();
  };
  const startedMs = Date.now();
  const running = await open(client, { body }).response;
  t.is(running.status, 200);
  // What the object has not written when it loses its memory it hears again from the renewal.
  await edge.worker.evict("KeyGuard", key.id);
  while ((await renewals()) === 0) {
    if (Date.now() - startedMs > LIMIT_MS) throw new Error("no renewal came");
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  t.true(Date.now() - startedMs >= RENEW_MS, "not before its time");
  t.is((await exchange(client, { body })).status, 429, "the lease is held");
  mayEnd.resolve();
  t.true((await running.rest()).clean);
  agent.script = answerOk;
  t.is((await exchange(client, { body })).status, 200);
});
