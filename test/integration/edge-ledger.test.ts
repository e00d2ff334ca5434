/** From a turn on a real agent to the ledger of a real edge, and back to the limits of its key. */
import test from "ava";
import { provisionKey } from "../helpers/admin-client.ts";
import { poll } from "../helpers/agent-process.ts";
import { AGENT_NAME, type EdgeWithAgent, startEdgeWithAgent } from "../helpers/edge-with-agent.ts";

/** Built from the repository's root, as any entry. */
const FAULTY_WORKER = "test/workers/faulty-ledger.ts";
/** A test here waits for deliveries that fail on purpose, with the agent's pauses in between. */
const FAULTS_LIMIT_MS = 300_000;

let path: EdgeWithAgent;
test.before(async () => {
  path = await startEdgeWithAgent({ main: FAULTY_WORKER });
});
test.after.always(async () => {
  await path?.stop();
});

const question = (content: string, maxTokens: number, more: object = {}) => ({
  model: "default",
  temperature: 0,
  max_tokens: maxTokens,
  messages: [{ role: "user", content }],
  ...more,
});

interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
}
const usageOf = async (response: Response): Promise<Usage> => {
  const { prompt_tokens, completion_tokens } = ((await response.json()) as { usage: Usage }).usage;
  return { prompt_tokens, completion_tokens };
};
const tokensOf = ({ prompt_tokens, completion_tokens }: Usage): number => prompt_tokens + completion_tokens;

/** What an edge reserves for a request: a quarter of its bytes, and the longest answer. */
const reservedFor = (body: object, maxTokens: number): number => Math.ceil(JSON.stringify(body).length / 4) + maxTokens;

test.serial(
  "a turn's record reaches ledger and budget, and a budget that is used up refuses with insufficient_quota until the month ends",
  async (t) => {
    const body = question("What is the ISO code of Portugal?", 20);
    const reserved = reservedFor(body, 20);
    // Room for one request of which nothing is known yet; what a turn uses is less than what was reserved for it.
    const { id, text } = await provisionKey(path.admin, { limits: { tokens_per_month: reserved + 5 } });
    const used = await usageOf(await path.chat(text, body));
    t.true(tokensOf(used) > 5 && tokensOf(used) < reserved, JSON.stringify(used));
    await path.settled(id);

    const rows = await path.edge.ledger.prepare("SELECT * FROM turns WHERE key_id = ?").bind(id).all();
    t.is(rows.results.length, 1);
    t.like(rows.results[0], { agent_id: AGENT_NAME, tenant_id: "acme", outcome: "finished", ...used });
    const guard = (await path.admin("GET", `/keys/${id}`)).body.guard;
    t.is(guard.month_tokens, tokensOf(used));

    for (let again = 0; again < 2; again += 1) {
      const refused = await path.chat(text, body);
      t.is(refused.status, 429);
      t.is(refused.headers.get("x-should-retry"), "false");
      t.like((await refused.json()) as object, { error: { code: "insufficient_quota" } });
    }
    t.is((await path.admin("PATCH", `/keys/${id}`, { limits: { tokens_per_month: reserved + 1_000 } })).status, 200);
    t.is((await path.chat(text, body)).status, 200, "a larger budget holds at once");
    await path.settled(id);
    t.deepEqual((await path.admin("GET", `/consistency?key=${id}`)).body.data[0].differences, []);
  },
);

test.serial("streams and plain answers are booked as they told their clients, to the token", async (t) => {
  const { id, text } = await provisionKey(path.admin, { tenant: "sums" });
  let prompt = 0;
  let completion = 0;
  for (const content of ["Name a colour.", "What is the ISO code of France?", "Count to five."]) {
    const plain = await usageOf(await path.chat(text, question(content, 12)));
    const stream = await path.chat(
      text,
      question(content, 12, { stream: true, stream_options: { include_usage: true } }),
    );
    const [, last = "{}"] = /data: (\{[^\n]*"usage":\{[^\n]*\})\n\ndata: \[DONE\]/.exec(await stream.text()) ?? [];
    const streamed = (JSON.parse(last) as { usage: Usage }).usage;
    for (const used of [plain, streamed]) {
      prompt += used.prompt_tokens;
      completion += used.completion_tokens;
    }
  }
  await path.settled(id);
  const { body } = await path.admin("GET", `/usage?group_by=tenant,agent&key=${id}`);
  t.is(body.data.length, 1);
  t.like(body.data[0], {
    tenant: "sums",
    agent: AGENT_NAME,
    turns: 6,
    failed_turns: 0,
    aborted_turns: 0,
    prompt_tokens: prompt,
    completion_tokens: completion,
  });
  t.deepEqual((await path.admin("GET", `/consistency?key=${id}`)).body.data[0].differences, []);
});

const faults = async (plan?: object): Promise<{ failed: boolean }> => {
  const init = plan === undefined ? {} : { method: "POST", body: JSON.stringify(plan) };
  return (await (await fetch(`${path.edge.url}/test/faults`, init)).json()) as { failed: boolean };
};

test.serial(
  "with ledger or guard failing at the N-th call of a delivery, before or after its effect, each turn is booked once and the budget is exact",
  async (t) => {
    t.timeout(FAULTS_LIMIT_MS);
    const keys = [await provisionKey(path.admin), await provisionKey(path.admin)];
    const owed = new Map(keys.map(({ id }) => [id, 0]));
    let turns = 0;
    for (const when of ["before", "after"] as const) {
      for (let nth = 1; ; nth += 1) {
        await faults({ nth, when });
        await Promise.all(
          keys.map(async ({ id, text }) => {
            const used = await usageOf(await path.chat(text, question(`Question ${nth} ${when}`, 4)));
            owed.set(id, (owed.get(id) ?? 0) + tokensOf(used));
            turns += 1;
          }),
        );
        for (const { id } of keys) await path.settled(id);
        if (!(await faults()).failed) break;
      }
    }
    t.true(turns >= 8, "there were faults to survive");
    await faults({ nth: 0 });
    for (const { id } of keys) {
      const [row] = (await path.admin("GET", `/consistency?key=${id}`)).body.data;
      t.deepEqual(row.differences, []);
      t.is(row.guard_month_tokens, owed.get(id));
    }
    const { results } = await path.edge.ledger
      .prepare("SELECT count(*) AS turns, count(DISTINCT request_id) AS requests FROM turns WHERE key_id IN (?, ?)")
      .bind(keys[0]?.id, keys[1]?.id)
      .all();
    t.deepEqual(results, [{ turns, requests: turns }]);
  },
);

test.serial("an object that lost its memory still knows what was used of the month", async (t) => {
  const { id, text } = await provisionKey(path.admin);
  const used = await usageOf(await path.chat(text, question("What is the ISO code of Spain?", 8)));
  await path.settled(id);
  await path.edge.evict("KeyGuard", id);
  t.is((await path.admin("GET", `/keys/${id}`)).body.guard.month_tokens, tokensOf(used));
});

test.serial("the agent's heartbeats are seen by the operator", async (t) => {
  const { body } = await poll(
    () => path.admin("GET", "/agents"),
    (answer) => answer.body.data[0]?.heartbeat !== null,
    "a heartbeat",
  );
  t.like(body.data[0], { agent: AGENT_NAME, disabled: false, heartbeat: { state: "ready", replicas: 1 } });
});
