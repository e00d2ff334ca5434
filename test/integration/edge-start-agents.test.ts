/** `npm start` with two agents: an operator takes one out of service while clients ask, and puts it back. */
import test from "ava";
import { provisionKey } from "../helpers/admin-client.ts";
import { poll } from "../helpers/agent-process.ts";
import { exchange } from "../helpers/edge-worker-client.ts";
import { adminOf, kill, startReady } from "../helpers/local-start.ts";

const CONVERSATIONS = 16;
/** Of everything that is asked: two agents start, and a snapshot of the fleet may be 2 s old each time. */
const LIMIT_MS = 240_000;

test("of two agents one is taken out of service without a failed request, all turns go to the other, and both are in the ledger", async (t) => {
  t.timeout(LIMIT_MS);
  const { child, ready, exited } = await startReady("--agents", "2", "--replicas", "1");
  try {
    const { admin } = await adminOf(ready);
    const key = await provisionKey(admin, { scopes: ["chat", "diagnostics"] });
    const client = { url: ready.edge, apiKey: key.text };
    const sent = new Map<string, number>();
    /** Asks within a conversation of that number; resolves with the name of the agent that answered. */
    const ask = async (conversation: number): Promise<string> => {
      const messages = [{ role: "user", content: `Conversation ${conversation}` }];
      const answer = await exchange(client, { body: JSON.stringify({ model: "default", messages, max_tokens: 2 }) });
      t.is(answer.status, 200, answer.text);
      t.is(answer.headers["x-lockgate-attempts"], "1");
      const agent = String(answer.headers["x-lockgate-agent"]);
      sent.set(agent, (sent.get(agent) ?? 0) + 1);
      return agent;
    };
    const askAll = async (): Promise<string[]> => {
      const agents: string[] = [];
      for (let conversation = 0; conversation < CONVERSATIONS; conversation += 1) agents.push(await ask(conversation));
      return agents;
    };
    const setDisabled = async (name: string, disabled: boolean): Promise<void> => {
      t.is((await admin("PATCH", `/agents/${name}`, { disabled })).status, 200);
    };

    const before = await askAll();
    const names = ready.agents.map(({ name }) => name);
    t.deepEqual([...new Set(before)].toSorted(), names);
    const [out = "", other = ""] = names;
    const moved = before.indexOf(out);
    await setDisabled(out, true);
    await poll(
      () => ask(moved),
      (agent) => agent === other,
      "the word of the operator",
    );
    t.deepEqual([...new Set(await askAll())], [other]);
    await setDisabled(out, false);
    await poll(
      () => ask(moved),
      (agent) => agent === out,
      "the word of the operator",
    );

    await poll(
      () => admin("GET", `/keys/${key.id}`),
      ({ body }) => body.guard.open_requests.length === 0,
      "all usage records",
    );
    const { body } = await admin("GET", `/usage?group_by=agent&key=${key.id}`);
    const rows = body.data as { agent: string; turns: number }[];
    t.deepEqual(Object.fromEntries(rows.map(({ agent, turns }) => [agent, turns])), Object.fromEntries(sent));
    child.kill("SIGTERM");
    t.is(await exited, 0);
  } finally {
    kill(child);
  }
});
