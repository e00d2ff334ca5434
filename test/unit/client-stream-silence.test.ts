/** How long a client of a stream hears nothing, on a clock of the test's own: all 150 s of a prefill in no time. */
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { mock } from "node:test";
import test, { type ExecutionContext } from "ava";
import { ClientStream } from "../../gpu-agent/src/http/client-stream.ts";
import { KEEP_ALIVE_COMMENT, KEEP_ALIVE_INTERVAL_MS, MAX_SILENCE_MS } from "../../gpu-agent/src/http/sse.ts";
import { pickSeed, seededRandom } from "../helpers/seeded-random.ts";

const PREFILL_MS = 150_000;
const STEP_MS = 10;

/** A response to a client that reads, and when something was written to it, ms from now on. */
const openResponse = async (t: ExecutionContext, nowMs: () => number) => {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const client = connect((server.address() as AddressInfo).port, "127.0.0.1");
  client.resume();
  t.teardown(() => {
    client.destroy();
    server.closeAllConnections();
    server.close();
  });
  client.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
  const [, response] = (await once(server, "request")) as [unknown, ServerResponse];
  const writtenAtMs: number[] = [];
  const write = response.write.bind(response);
  response.write = (chunk: string) => {
    writtenAtMs.push(nowMs());
    return write(chunk);
  };
  return { response, writtenAtMs };
};

const longestGapMs = (timesMs: readonly number[]): number =>
  Math.max(...timesMs.map((timeMs, at) => timeMs - (timesMs[at - 1] ?? 0)));

/** Runs a stream for `PREFILL_MS` of a clock that steps on; `turn` may write something at each step. */
const runFor = async (t: ExecutionContext, turn: (stream: ClientStream, nowMs: number) => void) => {
  let nowMs = 0;
  const { response, writtenAtMs } = await openResponse(t, () => nowMs);
  mock.timers.enable({ apis: ["setInterval", "setTimeout"] });
  t.teardown(() => mock.timers.reset());
  const stream = new ClientStream({
    response,
    keepAlive: () => KEEP_ALIVE_COMMENT,
    keepAliveMs: KEEP_ALIVE_INTERVAL_MS,
    writeStallMs: 10 * PREFILL_MS,
  });
  while (nowMs < PREFILL_MS) {
    nowMs += STEP_MS;
    mock.timers.tick(STEP_MS);
    turn(stream, nowMs);
  }
  stream.close();
  return [...writtenAtMs, nowMs];
};

test.serial("field report 25: through 150 s of prefill there is a byte at least every 2 s", async (t) => {
  const timesMs = await runFor(t, () => {});
  t.true(longestGapMs(timesMs) <= KEEP_ALIVE_INTERVAL_MS, `${longestGapMs(timesMs)} ms`);
  t.true(KEEP_ALIVE_INTERVAL_MS < MAX_SILENCE_MS);
  t.is(timesMs.length - 1, PREFILL_MS / KEEP_ALIVE_INTERVAL_MS);
});

test.serial("property: whenever text comes, no silence is longer than the keep-alive interval", async (t) => {
  const seed = pickSeed();
  t.log(`LOCKGATE_SEED=${seed}`);
  const random = seededRandom(seed);
  let texts = 0;
  const timesMs = await runFor(t, (stream) => {
    if (random() > 0.01) return;
    texts++;
    stream.text("x");
    void stream.flush();
  });
  t.true(texts > 0);
  t.true(longestGapMs(timesMs) <= KEEP_ALIVE_INTERVAL_MS, `${longestGapMs(timesMs)} ms`);
});
