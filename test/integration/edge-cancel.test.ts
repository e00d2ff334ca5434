import test from "ava";
import { onlyAgent, startEdgeUnderTest } from "../helpers/edge-worker.ts";
import { open, readBytes } from "../helpers/edge-worker-client.ts";
import { keepAliveComment, type RecordedRequest, type Script } from "../helpers/scripted-agent.ts";

/** From the contract: how soon the GPU must have stopped. */
const RESET_LIMIT_MS = 1000;
const CLOSE_LIMIT_MS = 3000;
/** From the contract: an agent is never silent for longer. */
const KEEP_ALIVE_MS = 2000;

const edge = await startEdgeUnderTest();
const agent = onlyAgent(edge);
test.after.always(() => edge.stop());

const stream = { "content-type": "text/event-stream" };
const firstEvent = "data: 1\n\n";

/** Sends one event, then only keep-alives. */
const oneEventThenSilence: Script = async (reply) => {
  reply.head(200, stream);
  await reply.write(firstEvent);
  reply.keepAliveEvery(KEEP_ALIVE_MS);
};

/** The request that the agent got last, once it has got it. */
const arrived = async (script: Script, send: () => ReturnType<typeof open>) => {
  const seen = Promise.withResolvers<RecordedRequest>();
  agent.script = (reply, request) => {
    seen.resolve(request);
    return script(reply, request);
  };
  const sent = send();
  return { ...sent, seen: await seen.promise };
};

/** Milliseconds until the agent's connection was gone; rejects past the limit. */
const abortedWithin = async (request: RecordedRequest, limitMs: number): Promise<number> => {
  const startedAt = performance.now();
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error(`the agent saw nothing for ${limitMs} ms`)), limitMs);
  try {
    await Promise.race([request.aborted, late.promise]);
    return performance.now() - startedAt;
  } finally {
    clearTimeout(timer);
  }
};

test.serial("field report 1: a client's reset in mid-stream closes the agent's connection", async (t) => {
  const { seen, response } = await arrived(oneEventThenSilence, () => open(edge));
  const answer = await response;
  await readBytes(answer, firstEvent.length);
  answer.socket.resetAndDestroy();
  t.log(`seen after ${(await abortedWithin(seen, RESET_LIMIT_MS)).toFixed(1)} ms`);
  t.pass();
});

test.serial(
  "field report 1: a client's orderly close in mid-stream closes the agent's connection within the next keep-alives",
  async (t) => {
    const { seen, response } = await arrived(oneEventThenSilence, () => open(edge));
    const answer = await response;
    await readBytes(answer, firstEvent.length);
    answer.socket.destroy();
    t.log(`seen after ${(await abortedWithin(seen, CLOSE_LIMIT_MS)).toFixed(1)} ms`);
    t.pass();
  },
);

test.serial("field report 2: a client's reset before the response headers closes the agent's connection", async (t) => {
  const { seen, request } = await arrived(
    () => undefined,
    () => open(edge),
  );
  request.socket?.resetAndDestroy();
  t.log(`seen after ${(await abortedWithin(seen, RESET_LIMIT_MS)).toFixed(1)} ms`);
  t.pass();
});

test.serial(
  "field report 2: a client that goes away while headers are out and no event is stops the agent",
  async (t) => {
    const headersOnly: Script = (reply) => {
      reply.head(200, stream);
      reply.keepAliveEvery(KEEP_ALIVE_MS);
    };
    const { seen, response } = await arrived(headersOnly, () => open(edge));
    (await response).socket.resetAndDestroy();
    t.log(`seen after ${(await abortedWithin(seen, RESET_LIMIT_MS)).toFixed(1)} ms`);
    t.pass();
  },
);

test.serial("field report 3: a non-streaming request is cancelled too", async (t) => {
  for (const how of ["reset", "close"] as const) {
    // As an agent does it: white space before the JSON keeps the connection alive.
    const spaces: Script = async (reply) => {
      reply.head(200, { "content-type": "application/json" });
      await reply.write(" ");
      reply.keepAliveEvery(KEEP_ALIVE_MS);
    };
    const { seen, response } = await arrived(spaces, () => open(edge, { body: '{"stream":false}' }));
    const answer = await response;
    await readBytes(answer, 1);
    if (how === "reset") answer.socket.resetAndDestroy();
    else answer.socket.destroy();
    const tookMs = await abortedWithin(seen, how === "reset" ? RESET_LIMIT_MS : CLOSE_LIMIT_MS);
    t.log(`${how}: seen after ${tookMs.toFixed(1)} ms`);
  }
  t.pass();
});

test.serial("one client's going away leaves its neighbour's stream alone", async (t) => {
  const release = Promise.withResolvers<void>();
  const script: Script = async (reply) => {
    reply.head(200, stream);
    await reply.write(firstEvent);
    await release.promise;
    await reply.write(keepAliveComment);
    reply.end();
  };
  const leaving = await arrived(script, () => open(edge));
  const staying = await arrived(script, () => open(edge));
  const [left, stayed] = await Promise.all([leaving.response, staying.response]);
  left.socket.resetAndDestroy();
  await abortedWithin(leaving.seen, RESET_LIMIT_MS);
  release.resolve();
  const { bytes, clean } = await stayed.rest();
  t.true(clean);
  t.is(bytes.toString(), `${firstEvent}${keepAliveComment}`);
});
