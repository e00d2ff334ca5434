/** GET /metrics of the real edge: who may read it, and that what has happened in any isolate or object is in it. */
import { turnIdOf, USAGE_PATH } from "@lockgate/shared-types";
import test from "ava";
import { provisionKey } from "../helpers/admin-client.ts";
import { type EdgeUnderTest, startEdgeUnderTest } from "../helpers/edge-worker.ts";
import { exchange } from "../helpers/edge-worker-client.ts";
import { hear, postSigned, signedAsAgent } from "../helpers/fleet-heartbeats.ts";
import { parseScrape, type Scrape } from "../helpers/prometheus.ts";
import { answerOk } from "../helpers/scripted-agent.ts";
import { recordNumber } from "../helpers/usage-records.ts";

/** Two workers, so that counts come from more than one isolate. */
const edge = await startEdgeUnderTest(2, { LOST_AFTER_MS: "1", BREAKER_OPEN_MS: "300000" }, { workers: 2 });
test.after.always(() => edge.stop());
test.beforeEach(() => {
  for (const agent of edge.agents) agent.script = answerOk;
});

/** From edge/src/fleet/breaker.ts: failures that open a breaker. */
const OPEN_AT = 5;
const POLL_MS = 50;

const get = (of: Pick<EdgeUnderTest, "url" | "adminToken">, authorization = `Bearer ${of.adminToken}`) =>
  fetch(`${of.url}/metrics`, { headers: { authorization } });

const scrape = async (): Promise<Scrape> => {
  const response = await get(edge);
  if (response.status !== 200) throw new Error(`a scrape got ${response.status}`);
  return parseScrape(await response.text());
};

type Labels = Readonly<Record<string, string>>;

/** 0 for a series that is not there yet. */
const figure = (from: Scrape, name: string, labels: Labels = {}): number => {
  const entries = Object.entries(labels);
  const known = from.series.some(
    (series) =>
      series.name === `lockgate:edge_${name}` && entries.every(([label, text]) => series.labels[label] === text),
  );
  return known ? from.value(`lockgate:edge_${name}`, labels) : 0;
};

/** Scrapes until the series has that value: the other isolate tells its counts behind its answers. */
const until = async (name: string, labels: Labels, value: number): Promise<Scrape> => {
  for (;;) {
    const seen = await scrape();
    if (figure(seen, name, labels) === value) return seen;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
};

test.serial("only the admin credential opens the metrics", async (t) => {
  const { status, headers } = await get(edge);
  t.is(status, 200);
  t.is(headers.get("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  t.is(headers.get("cache-control"), "no-store");
  for (const authorization of ["", "Bearer nobody", `Bearer ${edge.apiKey}`, edge.adminToken]) {
    const refused = await get(edge, authorization);
    t.is(refused.status, 401, authorization.slice(0, 8));
    t.notRegex(await refused.text(), /lockgate:/);
  }
  t.is((await fetch(`${edge.url}/metrics`, { method: "POST" })).status, 405);
});

test.serial("what two isolates answer and refuse adds up, each by its route and its cause", async (t) => {
  const before = await scrape();
  const chat = { route: "chat", class: "2xx" };
  const body = JSON.stringify({ model: "atlas" });
  for (const url of edge.urls) {
    for (let asked = 0; asked < 3; asked += 1) await exchange({ ...edge, url }, { body });
    await exchange({ ...edge, url }, { authorized: false });
    await exchange({ ...edge, url }, { body: "[" });
  }
  const after = await until("responses_total", chat, figure(before, "responses_total", chat) + 6);
  const grown = (name: string, labels: Labels) => figure(after, name, labels) - figure(before, name, labels);
  t.is(grown("responses_total", { route: "chat", class: "4xx" }), 4);
  t.is(grown("refusals_total", { cause: "missing" }), 2);
  t.is(grown("refusals_total", { cause: "not_json" }), 2);
  t.is(grown("guard_calls_total", { call: "take", result: "ok" }), 6);
  const attempts = ["agent-0", "agent-1"].map((agent) => grown("upstream_attempts_total", { agent, result: "answer" }));
  t.is((attempts[0] ?? 0) + (attempts[1] ?? 0), 6);
  t.true(figure(after, "isolates") >= 2);
});

test.serial("agents show by what their heartbeats say", async (t) => {
  await hear(edge, [
    [1, { state: "draining" }],
    [0, { slots: 4, free: 3, waiting: 0, usage_backlog: 12 }],
  ]);
  const seen = await scrape();
  t.is(figure(seen, "agent_state", { agent: "agent-0", state: "ready" }), 1);
  t.is(figure(seen, "agent_state", { agent: "agent-1", state: "draining" }), 1);
  t.is(figure(seen, "agent_free_slots", { agent: "agent-0" }), 3);
  t.is(figure(seen, "agent_usage_backlog_records", { agent: "agent-0" }), 12);
  await edge.admin("POST", "/agents/agent-0", { disabled: true });
});

test.serial("usage that comes twice is booked once and counted as a duplicate once", async (t) => {
  const key = await provisionKey(edge.admin);
  const before = await scrape();
  const records = [1, 2, 3].map((number) => ({
    ...recordNumber(number),
    request_id: `req_metrics_${number}`,
    turn_id: turnIdOf(`req_metrics_${number}`, 1),
    key_id: key.id,
    agent_id: "agent-0",
  }));
  const post = async (some: readonly object[]) => {
    const body = JSON.stringify({ agent_id: "agent-0", records: some });
    const headers = await signedAsAgent(edge, 0, { path: USAGE_PATH, body });
    return (await postSigned(edge.url, USAGE_PATH, headers, body)).status;
  };
  t.is(await post(records.slice(0, 2)), 204);
  t.is(await post(records), 204);
  const after = await scrape();
  const grown = (name: string, labels: Labels) => figure(after, name, labels) - figure(before, name, labels);
  t.is(grown("usage_records_total", { result: "booked" }), 3);
  t.is(grown("usage_records_total", { result: "duplicate" }), 2);
  t.is(grown("guard_calls_total", { call: "settle", result: "ok" }), 2);
});

test.serial("a request whose record never comes is counted as lost by the object that closes it", async (t) => {
  const before = figure(await scrape(), "requests_lost_total");
  const key = await provisionKey(edge.admin);
  const { status } = await exchange({ ...edge, apiKey: key.text }, { body: JSON.stringify({ model: "atlas" }) });
  t.is(status, 200);
  for (;;) {
    if (figure(await scrape(), "requests_lost_total") > before) break;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
});

test.serial("failures show as failed attempts, failovers and open breakers", async (t) => {
  const own = await startEdgeUnderTest(2, { BREAKER_OPEN_MS: "300000" });
  try {
    const [bad, good] = own.agents;
    if (bad === undefined || good === undefined) throw new Error("two agents were asked for");
    bad.script = (reply) => reply.reset();
    for (let conversation = 0; bad.requests.length < OPEN_AT; conversation += 1) {
      const content = `conversation ${conversation}`;
      const body = JSON.stringify({ model: "atlas", messages: [{ role: "user", content }] });
      t.is((await exchange(own, { body })).status, 200);
    }
    const seen = parseScrape(await (await get(own)).text());
    t.is(figure(seen, "upstream_attempts_total", { agent: "agent-0", result: "failed" }), OPEN_AT);
    t.is(figure(seen, "upstream_failovers_total", { agent: "agent-0" }), OPEN_AT);
    t.is(figure(seen, "streams_total", { agent: "agent-1", end: "complete" }), good.requests.length);
    t.is(figure(seen, "breaker_changes_total", { agent: "agent-0", to: "open" }), 1);
  } finally {
    await own.stop();
  }
});

test.serial("no label names a key, a tenant or a model", async (t) => {
  const texts = (await scrape()).series.flatMap(({ labels }) => Object.values(labels));
  for (const word of [edge.keyId, "acme", "atlas", edge.apiKey]) t.false(texts.some((text) => text.includes(word)));
});

test.serial("without an admin credential configured there are no metrics", async (t) => {
  const closed = await startEdgeUnderTest(1, { ADMIN_TOKEN_HASH: "" });
  try {
    t.is((await get(closed)).status, 404);
  } finally {
    await closed.stop();
  }
});
