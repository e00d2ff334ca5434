/** Usage records as an agent posts them to a real edge: what is taken, what is refused and why, what a repetition changes. */
import { turnIdOf, USAGE_PATH, type UsageRecord } from "@lockgate/shared-types";
import test from "ava";
import { poll } from "../helpers/agent-process.ts";
import { startEdgeUnderTest } from "../helpers/edge-worker.ts";
import { exchange } from "../helpers/edge-worker-client.ts";
import { postSigned, signedAsAgent } from "../helpers/fleet-heartbeats.ts";
import { answerOk } from "../helpers/scripted-agent.ts";
import { recordNumber } from "../helpers/usage-records.ts";

/** Requests without a record are given up after this; the product waits ten minutes. */
const LOST_AFTER_MS = 300;

const edge = await startEdgeUnderTest(2, { LOST_AFTER_MS: String(LOST_AFTER_MS) });
test.after.always(() => edge.stop());
test.beforeEach(() => {
  for (const agent of edge.agents) agent.script = answerOk;
});

const post = async (index: number, body: unknown): Promise<{ status: number; text: string }> => {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const headers = await signedAsAgent(edge, index, { path: USAGE_PATH, body: text });
  const response = await postSigned(edge.url, USAGE_PATH, headers, text);
  return { status: response.status, text: await response.text() };
};

const batch = (index: number, ...records: readonly object[]) => ({
  agent_id: `agent-${index}`,
  records: records.map((record) => ({ ...record, agent_id: `agent-${index}` })),
});
let numbers = 0;
const nextRecord = (change: Partial<UsageRecord> = {}): UsageRecord => {
  numbers += 1;
  return { ...recordNumber(numbers), key_id: edge.keyId, ended_at_ms: Date.now(), ...change };
};

const count = async (sql: string, ...values: string[]): Promise<number> => {
  const row = await edge.worker.ledger
    .prepare(`SELECT count(*) AS n FROM ${sql}`)
    .bind(...values)
    .first<{ n: number }>();
  return row?.n ?? 0;
};

test.serial(
  "a batch that is posted again, alone or among others, by one agent or in parallel, is booked once",
  async (t) => {
    const records = Array.from({ length: 8 }, () => nextRecord());
    const before = (await edge.admin("GET", `/keys/${edge.keyId}`)).body.guard.month_tokens;
    const answers = await Promise.all([
      post(0, batch(0, ...records)),
      post(0, batch(0, ...records.slice(3))),
      post(0, batch(0, ...records, nextRecord())),
    ]);
    t.deepEqual(
      answers.map(({ status }) => status),
      [204, 204, 204],
    );
    t.is((await post(0, batch(0, ...records))).status, 204);
    const owed = Array.from({ length: 9 }, (_, at) => 20 + (numbers - 8 + at)).reduce((sum, tokens) => sum + tokens, 0);
    t.is((await edge.admin("GET", `/keys/${edge.keyId}`)).body.guard.month_tokens, before + owed);
    t.is(await count("turns WHERE key_id = ?", edge.keyId), 9);
  },
);

test.serial("one turn id of two agents is two turns", async (t) => {
  const record = nextRecord();
  t.is((await post(0, batch(0, record))).status, 204);
  t.is((await post(1, batch(1, record))).status, 204);
  t.is(await count("turns WHERE turn_id = ?", record.turn_id), 2);
});

test.serial(
  "a record that is malformed, or of another agent, is a 400 that names the rule, and its batch is not booked",
  async (t) => {
    const good = nextRecord();
    for (const [body, rule] of [
      [batch(0, good, { ...nextRecord(), cached_tokens: 21 }), /records\[1\]: more cached than prompt tokens/],
      [batch(0, good, { ...nextRecord(), outcome: "lost" }), /records\[1\]\.outcome/],
      [{ agent_id: "agent-0", records: [good, { ...nextRecord(), agent_id: "agent-1" }] }, /records\[0\]\.agent_id/],
      [batch(1, good), /agent_id: must be the agent that signed/],
      ["{", /not JSON/],
    ] as const) {
      const answer = await post(0, body);
      t.is(answer.status, 400, answer.text);
      t.regex(answer.text, rule);
    }
    t.is(await count("turns WHERE turn_id = ?", good.turn_id), 0);
  },
);

test.serial("usage of an id that this edge did not make is booked, and makes no object", async (t) => {
  const objects = await edge.worker.objectCount("KeyGuard");
  const strangers = ["old-static-key", "0".repeat(32), null].map((key_id) => nextRecord({ key_id }));
  t.is((await post(0, batch(0, ...strangers))).status, 204);
  t.is(await edge.worker.objectCount("KeyGuard"), objects);
  const { body } = await edge.admin("GET", "/usage?group_by=key&key=old-static-key");
  t.like(body.data[0], { key: "old-static-key", turns: 1 });
});

test.serial("a request whose record does not come is shown as lost, and no longer once it has come", async (t) => {
  const { headers } = await exchange(edge, { body: JSON.stringify({ model: "atlas", max_tokens: 5 }) });
  const request_id = String(headers["x-request-id"]);
  const lost = async () =>
    (await edge.admin("GET", `/lost?key=${edge.keyId}`)).body.data as { request_id: string; agent_id: string }[];
  const listed = await poll(lost, (rows) => rows.some((row) => row.request_id === request_id), "the lost request");
  const [row] = listed.filter((one) => one.request_id === request_id);
  const index = Number(row?.agent_id.slice("agent-".length));
  const late = nextRecord({ request_id, turn_id: turnIdOf(request_id, 1) });
  t.is((await post(index, batch(index, late))).status, 204);
  t.false((await lost()).some((one) => one.request_id === request_id));
});

test.serial("the ledger and all guards agree at the end", async (t) => {
  const { body } = await edge.admin("GET", "/consistency");
  t.true(body.data.length >= 1);
  for (const row of body.data) t.deepEqual(row.differences, [], row.key_id);
});
