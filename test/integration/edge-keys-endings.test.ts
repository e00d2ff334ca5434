/** A key that may run one request at a time, request after request: however one ends, the next is let in. */
import { once } from "node:events";
import test from "ava";
import { provisionKey } from "../helpers/admin-client.ts";
import { onlyAgent, startEdgeUnderTest } from "../helpers/edge-worker.ts";
import { exchange, open } from "../helpers/edge-worker-client.ts";
import type { RecordedRequest, Reply } from "../helpers/scripted-agent.ts";

const REQUESTS = 500;
/** Shorter than a real agent's, so that an orderly close is seen soon. */
const KEEP_ALIVE_MS = 10;

const edge = await startEdgeUnderTest();
const agent = onlyAgent(edge);
test.after.always(() => edge.stop());

const event = 'data: {"a":1}\n\n';
const startStream = async (reply: Reply): Promise<void> => {
  reply.head(200, { "content-type": "text/event-stream" });
  await reply.write(event);
};
const answer = (status: number) => (reply: Reply) => {
  reply.head(status, { "content-type": "application/json" });
  void reply.write("{}").then(() => reply.end());
};

type Client = { readonly url: string; readonly apiKey: string };

/** Reads the first event of a stream, goes away in the given way, and waits until the agent has noticed. */
const leave = async (client: Client, how: "reset" | "close"): Promise<number> => {
  const arrived = Promise.withResolvers<RecordedRequest>();
  agent.script = async (reply, request) => {
    await startStream(reply);
    reply.keepAliveEvery(KEEP_ALIVE_MS);
    arrived.resolve(request);
  };
  const response = await open(client, { body }).response;
  if (response.status !== 200) return response.status;
  await response.read();
  if (how === "reset") response.socket.resetAndDestroy();
  else response.socket.destroy();
  await Promise.all([once(response.socket, "close"), (await arrived.promise).aborted]);
  return response.status;
};

const body = '{"model":"m","stream":true}';

/** Each sends one request, sees it end, and returns its status; 200 where the name says nothing else. */
const endings: Readonly<Record<string, (client: Client) => Promise<number>>> = {
  "a complete stream": async (client) => {
    agent.script = async (reply) => {
      await startStream(reply);
      await reply.write("data: [DONE]\n\n");
      reply.end();
    };
    return (await exchange(client, { body })).status;
  },
  "a plain answer": async (client) => {
    agent.script = answer(200);
    return (await exchange(client, { body })).status;
  },
  "a refusal of the agent (400)": async (client) => {
    agent.script = answer(400);
    return (await exchange(client, { body })).status;
  },
  "a failure of the agent (500)": async (client) => {
    agent.script = answer(500);
    return (await exchange(client, { body })).status;
  },
  "a list of models": async (client) => {
    agent.script = answer(200);
    return (await exchange(client, { method: "GET", path: "/v1/models" })).status;
  },
  "a reset of the agent within a stream": async (client) => {
    agent.script = async (reply) => {
      await startStream(reply);
      reply.reset();
    };
    return (await exchange(client, { body })).status;
  },
  "a reset of the client within a stream": (client) => leave(client, "reset"),
  "a close of the client within a stream": (client) => leave(client, "close"),
};

test.serial(
  `field report 4: with a concurrency of one, ${REQUESTS} requests of every ending, back to back: no 429`,
  async (t) => {
    const key = await provisionKey(edge.admin, { limits: { concurrency: 1 } });
    const client = { url: edge.url, apiKey: key.text };
    const kinds = Object.entries(endings);
    for (let request = 0; request < REQUESTS; request += 1) {
      const [kind, send] = kinds[request % kinds.length] ?? ["", async () => 0];
      const status = await send(client);
      const expected = Number(/\((\d+)\)$/.exec(kind)?.[1] ?? 200);
      const previous = kinds[(request - 1 + kinds.length) % kinds.length]?.[0];
      if (!t.is(status, expected, `request ${request}, ${kind}, after ${previous}`)) return;
    }
    agent.script = answer(200);
    t.is((await exchange(client, { body })).status, 200);
  },
);

test.serial("a client that goes away while it waits for a lease leaves none behind", async (t) => {
  const key = await provisionKey(edge.admin, { limits: { concurrency: 1 } });
  const client = { url: edge.url, apiKey: key.text };
  const guard = async () => (await edge.admin("GET", `/keys/${key.id}`)).body.guard;
  for (let round = 0; round < 5; round += 1) {
    const mayEnd = Promise.withResolvers<void>();
    agent.script = async (reply) => {
      await startStream(reply);
      await mayEnd.promise;
      reply.end();
    };
    const holder = await open(client, { body }).response;
    t.is(holder.status, 200);
    const waiting = open(client, { body });
    // It waits, or has waited long enough already.
    let isOver = false;
    const over = (): void => {
      isOver = true;
    };
    waiting.response.then(over, over);
    while (!isOver && (await guard()).waiting === 0);
    waiting.request.socket?.resetAndDestroy();
    mayEnd.resolve();
    t.true((await holder.rest()).clean);
    agent.script = answer(200);
    t.is((await exchange(client, { body })).status, 200, `round ${round}`);
  }
});
