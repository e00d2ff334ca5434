/** The real edge with real agents that announce themselves: what it learns of them, and what a lost heartbeat or a draining agent costs. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { contentDigest, importSigningKey, signRequest } from "@lockgate/shared-types";
import test from "ava";
import { provisionKey } from "../helpers/admin-client.ts";
import { type AgentUnderTest, poll, startAgentUnderTest } from "../helpers/agent-process.ts";
import { type EdgeUnderTest, startEdgeUnderTest } from "../helpers/edge-worker.ts";
import { exchange } from "../helpers/edge-worker-client.ts";
import { expectedAnswer } from "../helpers/expected-answers.ts";

const portugal = expectedAnswer("fact-001");
const bodyOf = (extra: object = {}) => JSON.stringify({ model: "default", messages: portugal.messages, ...extra });

/** Stands before the edge for agents, which have to know its address before it has one; cuts off the messages that a test says. */
const relay = { target: "", cut: (_path: string): boolean => false, passed: 0 };
const server = createServer((request, response) => {
  const pass = async (): Promise<void> => {
    const body = new Uint8Array(await buffer(request));
    if (relay.target === "" || relay.cut(request.url ?? "")) return void request.socket.resetAndDestroy();
    const headers = Object.entries(request.headersDistinct).flatMap(([name, values = []]) =>
      ["host", "connection", "content-length", "transfer-encoding"].includes(name)
        ? []
        : values.map((value): [string, string] => [name, value]),
    );
    const answer = await fetch(`${relay.target}${request.url}`, { method: "POST", headers, body });
    if (answer.status === 204) relay.passed += 1;
    response.writeHead(answer.status).end();
  };
  pass().catch(() => request.socket.destroy());
});

let agents: AgentUnderTest[];
let edge: EdgeUnderTest;
test.before(async () => {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const start = (name: string) =>
    startAgentUnderTest(["--slots", "2", "--agent-id", name, "--edge-url", url, "--heartbeat-interval", "1"]);
  agents = await Promise.all([start("one"), start("two")]);
  edge = await startEdgeUnderTest(0, {
    AGENTS: JSON.stringify(
      agents.map((agent, index) => ({ name: ["one", "two"][index], url: agent.url, keyIds: [agent.signing.keyId] })),
    ),
    AGENT_SIGNING_KEYS: JSON.stringify(
      Object.fromEntries(
        agents.map(({ signing }) => [signing.keyId, Buffer.from(signing.secret).toString("base64url")]),
      ),
    ),
  });
  relay.target = edge.url;
});
test.after.always(async () => {
  await edge?.stop();
  await Promise.all(agents?.map((agent) => agent.stop()) ?? []);
  server.close();
  server.closeAllConnections();
});

interface ShownAgent {
  readonly agent: string;
  readonly heartbeat: { readonly received_at_ms: number; readonly state: string; readonly models: string[] } | null;
}
const shown = async (): Promise<ShownAgent[]> => (await edge.admin("GET", "/agents")).body.data as ShownAgent[];

test.serial("agents announce themselves, with the model that they have", async (t) => {
  const seen = await poll(shown, (list) => list.every(({ heartbeat }) => heartbeat !== null), "heartbeats of both");
  for (const { heartbeat } of seen) {
    t.is(heartbeat?.state, "ready");
    t.is(heartbeat?.models.length, 1);
  }
  // Once the worker has heard it too, a model that none of them has is a 404 of its own.
  const askForNothing = async () => (await exchange(edge, { body: '{"model":"nobody-has-this"}' })).text;
  await poll(askForNothing, (text) => text.includes("There is no such model"), "the worker's own 404");
  t.pass();
});

test.serial(
  "default is dispatched as the model that agents have said, and the answer tells where it ran to who may know",
  async (t) => {
    const key = await provisionKey(edge.admin, { name: "operator", scopes: ["chat", "models", "diagnostics"] });
    for (const stream of [false, true]) {
      const answer = await exchange({ ...edge, apiKey: key.text }, { body: bodyOf({ stream }) });
      t.is(answer.status, 200);
      t.regex(String(answer.headers["x-lockgate-agent"]), /^(one|two)$/);
      // The agent is idle, so a stream too has its replica when its headers go out.
      t.is(answer.headers["x-lockgate-replica"], "0");
      t.is(answer.headers["x-lockgate-attempts"], "1");
    }
  },
);

test.serial(
  "field report 13: a key that may use one model reaches it under the name default too, and no other",
  async (t) => {
    const [model = ""] = (await shown())[0]?.heartbeat?.models ?? [];
    const right = await provisionKey(edge.admin, { name: "right", models: [model] });
    const wrong = await provisionKey(edge.admin, { name: "wrong", models: ["another"] });
    t.is((await exchange({ ...edge, apiKey: right.text }, { body: bodyOf() })).status, 200);
    t.is((await exchange({ ...edge, apiKey: wrong.text }, { body: bodyOf() })).status, 404);
  },
);

test.serial(
  "field report 13: an agent dispatches the model that the edge signed, and refuses a body that names another",
  async (t) => {
    const [agent] = agents;
    const [model = ""] = (await shown())[0]?.heartbeat?.models ?? [];
    if (agent === undefined) return t.fail();
    const { keyId, secret } = agent.signing;
    const ask = async (asked: string, signed: string): Promise<number> => {
      const body = bodyOf({ model: asked, max_tokens: 1 });
      const url = `${agent.url}/v1/chat/completions`;
      const lockgate = { requestId: "req_1", keyId: "k", tenantSalt: "00ff00ff00ff00ff", model: signed };
      const fields = await signRequest(
        { method: "POST", url, contentDigest: await contentDigest(new TextEncoder().encode(body)), lockgate },
        await importSigningKey(keyId, secret),
        Date.now(),
        crypto.randomUUID(),
      );
      const answer = await fetch(url, {
        method: "POST",
        headers: [...fields, ["content-type", "application/json"]],
        body,
      });
      await answer.text();
      return answer.status;
    };
    t.is(await ask(model, model), 200);
    t.is(await ask("default", model), 200);
    t.is(await ask("default", "default"), 200);
    t.is(await ask(model, "default"), 400);
    t.is(await ask(model, "another"), 400);
    t.is(await ask("another", model), 400);
    t.is(await ask("default", "another"), 400);
    t.is(await ask("another", "another"), 404);
  },
);

for (const lost of [1, 2, 3]) {
  test.serial(`the heartbeat that is lost as number ${lost} costs no request, and the next one is heard`, async (t) => {
    let count = 0;
    let cutAtMs = 0;
    relay.cut = () => {
      count += 1;
      if (count === lost) cutAtMs = Date.now();
      return count === lost;
    };
    let heard = false;
    while (!heard) {
      t.is((await exchange(edge, { body: bodyOf({ max_tokens: 4 }) })).status, 200);
      const list = await shown();
      heard = cutAtMs > 0 && list.every(({ heartbeat }) => (heartbeat?.received_at_ms ?? 0) > cutAtMs);
    }
    relay.cut = () => false;
    t.pass();
  });
}

test.serial("field report 29: an agent that drains costs no request: new ones go to the other", async (t) => {
  const [first] = agents;
  if (first === undefined) return t.fail();
  let over = false;
  const statuses = new Set<number>();
  const clients = Array.from({ length: 2 }, async () => {
    for (let index = 0; !over; index += 1) {
      const content = `${portugal.messages.at(-1)?.content} ${index}`;
      const body = JSON.stringify({ model: "default", messages: [{ role: "user", content }], max_tokens: 8 });
      statuses.add((await exchange(edge, { body })).status);
    }
  });
  t.is(await first.stop(), 0);
  over = true;
  await Promise.all(clients);
  t.deepEqual([...statuses], [200]);
  for (let index = 0; index < 10; index += 1)
    t.is((await exchange(edge, { body: bodyOf({ max_tokens: 4 }) })).status, 200);
});
