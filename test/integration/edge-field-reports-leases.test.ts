/** Field report 4: a key that may run one request at a time. However a request ends, on whichever route, the next one is let in. */
import test from "ava";
import { provisionKey } from "../helpers/admin-client.ts";
import { poll } from "../helpers/agent-process.ts";
import { onlyAgent, startEdgeUnderTest } from "../helpers/edge-worker.ts";
import { exchange, open, type RawRequest } from "../helpers/edge-worker-client.ts";
import { answerOk, type RecordedRequest, type Script } from "../helpers/scripted-agent.ts";

/** The tests wait for it; and what is answered at once must make it on a busy machine. */
const HEADERS_TIMEOUT_MS = 1_500;

// A breaker that is never open for long: failures are on purpose here.
const edge = await startEdgeUnderTest(1, {
  BREAKER_OPEN_MS: "1",
  UPSTREAM_HEADERS_TIMEOUT_MS: String(HEADERS_TIMEOUT_MS),
});
const agent = onlyAgent(edge);
test.after.always(() => edge.stop());

const endpoints: Readonly<Record<string, RawRequest>> = {
  "a streamed chat completion": { body: '{"model":"m","stream":true}' },
  "a plain chat completion": { body: '{"model":"m"}' },
  "the list of models": { method: "GET", path: "/v1/models" },
  "one model": { method: "GET", path: "/v1/models/m" },
};

type Client = { readonly url: string; readonly apiKey: string };

/** How a request is answered, how its client leaves if it does, and the status that it sees. */
interface Ending {
  readonly script: Script;
  readonly send: (client: Client, request: RawRequest) => Promise<number>;
  readonly status: number;
}

const readAll = async (client: Client, request: RawRequest): Promise<number> =>
  (await exchange(client, request)).status;

const endings: Readonly<Record<string, Ending>> = {
  completes: { script: answerOk, send: readAll, status: 200 },
  "is cancelled by its client": {
    script: async (reply) => {
      reply.head(200, { "content-type": "application/json" });
      await reply.write(" ");
    },
    send: async (client, request) => {
      const { status, read, socket } = await open(client, request).response;
      await read();
      socket.resetAndDestroy();
      await agent.requests.at(-1)?.aborted;
      return status;
    },
    status: 200,
  },
  "gets a 500 of its agent": {
    script: async (reply) => {
      reply.head(500, { "content-type": "application/json" });
      await reply.write("{}");
      reply.end();
    },
    send: readAll,
    status: 500,
  },
  "gets no answer in time": { script: () => undefined, send: readAll, status: 504 },
};

for (const [endpoint, request] of Object.entries(endpoints)) {
  for (const [ending, { script, send, status }] of Object.entries(endings)) {
    test.serial(
      `field report 4: ${endpoint} that ${ending} gives its lease back: the next one is let in`,
      async (t) => {
        const key = await provisionKey(edge.admin, { limits: { concurrency: 1 } });
        const client = { url: edge.url, apiKey: key.text };
        agent.script = script;
        t.is(await send(client, request), status);
        agent.script = answerOk;
        t.is((await exchange(client, request)).status, 200);
        const leases = async (): Promise<number> => (await edge.admin("GET", `/keys/${key.id}`)).body.guard.leases;
        t.is(await poll(leases, (count) => count === 0, "a gauge of 0"), 0);
      },
    );
  }
}

test.serial("field report 4: while one request runs the next one is refused, so the lease is one", async (t) => {
  const key = await provisionKey(edge.admin, { limits: { concurrency: 1 } });
  const client = { url: edge.url, apiKey: key.text };
  const arrived = Promise.withResolvers<RecordedRequest>();
  agent.script = async (reply, request) => {
    reply.head(200, { "content-type": "text/event-stream" });
    await reply.write(": keep-alive\n\n");
    arrived.resolve(request);
  };
  const first = await open(client).response;
  t.is((await exchange(client)).status, 429);
  first.socket.resetAndDestroy();
  await (await arrived.promise).aborted;
});
