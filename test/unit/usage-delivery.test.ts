import { HEARTBEAT_PATH, heartbeatSchema, USAGE_PATH, usageBatchSchema } from "@lockgate/shared-types";
import test from "ava";
import fc from "fast-check";
import {
  deliveryErrorCode,
  FIRST_RETRY_MS,
  judgeStatus,
  MAX_RETRY_MS,
  nextBatchBound,
  retryDelayMs,
} from "../../gpu-agent/src/usage/delivery-policy.ts";
import { HeartbeatSender } from "../../gpu-agent/src/usage/heartbeat-sender.ts";
import { REJECT_NAME } from "../../gpu-agent/src/usage/reject-file.ts";
import { LINGER_MS, UsageDelivery } from "../../gpu-agent/src/usage/usage-delivery.ts";
import { ManualClock, promiseJobs } from "../helpers/fake-engine.ts";
import { MemorySpoolFiles } from "../helpers/memory-spool-files.ts";
import { numberOf, openSpool, recordNumber } from "../helpers/usage-records.ts";

test("2xx books; only an answer about the records refuses them for good; everything else is tried again", (t) => {
  for (const status of [200, 202, 204]) t.is(judgeStatus(status), "accepted");
  for (const status of [400, 409, 410, 413, 415, 422]) t.is(judgeStatus(status), "refused");
  for (const status of [301, 401, 403, 404, 405, 408, 429, 500, 502, 503, 504]) t.is(judgeStatus(status), "retry");
});

test("a failure's code is its status, `timeout`, or what the system calls it, and never anybody's words", (t) => {
  const fetchFailed = (cause: unknown) => new TypeError("fetch failed", { cause });
  const withCode = (code: unknown) => Object.assign(new Error("at 10.0.0.7"), { code });
  for (const [failure, code] of [
    [503, "http_503"],
    [401, "http_401"],
    [fetchFailed(withCode("ECONNREFUSED")), "ECONNREFUSED"],
    [withCode("ENOSPC"), "ENOSPC"],
    [new DOMException("late", "TimeoutError"), "timeout"],
    [fetchFailed(withCode("no code at 10.0.0.7")), "failed"],
    [withCode(23), "failed"],
    [new Error("10.0.0.7 said no"), "failed"],
    ["10.0.0.7", "failed"],
  ] as const) {
    t.is(deliveryErrorCode(failure), code);
  }
});

test("the pause doubles up to its bound, and randomness takes at most half of it away", (t) => {
  t.is(retryDelayMs(1, 0), FIRST_RETRY_MS / 2);
  for (let failures = 1; failures < 2_000; failures += 7) {
    const full = Math.min(MAX_RETRY_MS, FIRST_RETRY_MS * 2 ** (failures - 1));
    for (const random of [0, 0.5, 0.999]) {
      const delay = retryDelayMs(failures, random);
      t.true(delay >= full / 2 && delay < full);
    }
  }
});

test("a refused batch is halved down to the record at fault, then the bound grows back", (t) => {
  let bound = 128;
  const sizes: number[] = [];
  while (bound > 1) {
    sizes.push(bound);
    bound = nextBatchBound(bound, bound, "refused", 128);
  }
  t.deepEqual(sizes, [128, 64, 32, 16, 8, 4, 2]);
  t.is(nextBatchBound(1, 1, "refused", 128), 2);
  t.is(nextBatchBound(64, 3, "accepted", 128), 128);
  t.is(nextBatchBound(128, 128, "accepted", 128), 128);
  t.is(nextBatchBound(5, 5, "retry", 128), 5);
});

/** A delivery over files in memory, whose edge answers as told and books what it accepts. */
const startDelivery = async (answer: (numbers: readonly number[]) => number | Promise<number>) => {
  const files = new MemorySpoolFiles();
  const { spool, clock } = await openSpool(files);
  const sent: number[][] = [];
  const booked: number[] = [];
  const logged: string[] = [];
  const failures: string[] = [];
  let inFlight = 0;
  let mostInFlight = 0;
  const delivery = new UsageDelivery({
    spool,
    agentId: "gpu-7",
    clock,
    random: () => 0,
    log: (_, event) => void logged.push(event),
    onFailure: (code) => void failures.push(code),
    post: async (path, json, signal) => {
      if (path !== USAGE_PATH) throw new Error(path);
      const { agent_id, records } = usageBatchSchema.parse(JSON.parse(json));
      if (agent_id !== "gpu-7") throw new Error(agent_id);
      const numbers = records.map(numberOf);
      sent.push(numbers);
      mostInFlight = Math.max(mostInFlight, ++inFlight);
      try {
        const stopped = new Promise<never>((_, reject) =>
          signal.addEventListener("abort", () => reject(signal.reason)),
        );
        const status = await Promise.race([answer(numbers), stopped]);
        if (status === 204) booked.push(...numbers);
        return status;
      } finally {
        inFlight--;
      }
    },
  });
  return { files, spool, clock, delivery, sent, booked, logged, failures, mostInFlight: () => mostInFlight };
};

/** Long enough for every pause of a delivery that gets on. */
const A_WHILE_MS = 10 * MAX_RETRY_MS;

test("records are delivered in order, those that come close together in one batch", async (t) => {
  const { spool, clock, delivery, sent, booked } = await startDelivery(() => 204);
  delivery.start();
  await clock.advance(0);
  spool.append(recordNumber(1));
  await clock.advance(LINGER_MS / 2);
  spool.append(recordNumber(2));
  t.deepEqual(sent, []);
  await clock.advance(LINGER_MS / 2);
  t.deepEqual(sent, [[1, 2]]);
  spool.append(recordNumber(3));
  await clock.advance(LINGER_MS);
  t.deepEqual(booked, [1, 2, 3]);
  t.is(spool.backlog, 0);
  await delivery.finish(0);
});

test("a record is on the disk before it is sent", async (t) => {
  const { files, spool, clock, delivery, sent } = await startDelivery(() => {
    t.true(files.calls.includes("sync"));
    return 503;
  });
  spool.append(recordNumber(1));
  delivery.start();
  await clock.advance(0);
  t.deepEqual(sent, [[1]]);
  await delivery.finish(0);
});

test("one batch is in flight at a time, and appending never waits for it", async (t) => {
  const answers = Promise.withResolvers<number>();
  const { spool, clock, delivery, sent, booked, mostInFlight } = await startDelivery(() => answers.promise);
  delivery.start();
  spool.append(recordNumber(1));
  await clock.advance(LINGER_MS);
  for (const number of [2, 3]) t.true(spool.append(recordNumber(number)));
  await clock.advance(A_WHILE_MS);
  t.deepEqual(sent, [[1]]);
  answers.resolve(204);
  await clock.advance(LINGER_MS);
  t.deepEqual(booked, [1, 2, 3]);
  t.is(mostInFlight(), 1);
  await delivery.finish(0);
});

test("what fails is sent again after the pause, the same first, until it is accepted", async (t) => {
  const answers = [503, 404, 401, 204];
  const { spool, clock, delivery, sent, booked, failures } = await startDelivery(() => answers.shift() ?? 204);
  spool.append(recordNumber(1));
  delivery.start();
  await clock.advance(0);
  t.is(sent.length, 1);
  await clock.advance(FIRST_RETRY_MS / 2 - 1);
  t.is(sent.length, 1);
  await clock.advance(1);
  t.is(sent.length, 2);
  await clock.advance(A_WHILE_MS);
  t.deepEqual(sent, [[1], [1], [1], [1]]);
  t.deepEqual(booked, [1]);
  t.deepEqual(failures, ["http_503", "http_404", "http_401"]);
  await delivery.finish(0);
});

test("the last attempt's error is told until one goes through; a request that is given up at the end is none", async (t) => {
  let answer = (): number | Promise<number> => 503;
  const { spool, clock, delivery, failures } = await startDelivery(() => answer());
  t.is(delivery.error, null);
  spool.append(recordNumber(1));
  delivery.start();
  await clock.advance(0);
  t.is(delivery.error, "http_503");
  answer = () =>
    Promise.reject(new TypeError("fetch failed", { cause: Object.assign(new Error(), { code: "EPIPE" }) }));
  await clock.advance(FIRST_RETRY_MS / 2);
  t.is(delivery.error, "EPIPE");
  answer = () => 422;
  await clock.advance(A_WHILE_MS);
  t.is(delivery.error, null, "a refusal is an answer");
  t.is(spool.rejected, 1);
  answer = () => new Promise(() => {});
  spool.append(recordNumber(2));
  await clock.advance(LINGER_MS);
  await Promise.all([delivery.finish(1_000), clock.advance(1_000)]);
  t.is(delivery.error, null);
  t.deepEqual(new Set(failures), new Set(["http_503", "EPIPE"]));
});

test("records that are refused for good are put aside, each alone, and all others are booked in order", async (t) => {
  await fc.assert(
    fc.asyncProperty(fc.uniqueArray(fc.integer({ min: 1, max: 60 }), { maxLength: 8 }), async (bad) => {
      const isBad = (number: number) => bad.includes(number);
      const { files, spool, clock, delivery, booked } = await startDelivery((numbers) =>
        numbers.some(isBad) ? 422 : 204,
      );
      const all = Array.from({ length: 60 }, (_, at) => at + 1);
      for (const number of all) spool.append(recordNumber(number));
      delivery.start();
      await clock.advance(A_WHILE_MS);
      await delivery.finish(A_WHILE_MS);
      const lines = (files.contents[REJECT_NAME] ?? "").split("\n").slice(0, -1);
      const rejected = lines.map((line) =>
        numberOf((JSON.parse(line) as { record: { request_id: string } }).record as never),
      );
      t.deepEqual(
        booked,
        all.filter((number) => !isBad(number)),
      );
      t.deepEqual(rejected, all.filter(isBad));
      t.is(spool.backlog, 0);
    }),
    { numRuns: 25 },
  );
});

test("a reject file that cannot be written keeps its record first in line, and loses nothing", async (t) => {
  const { files, spool, clock, delivery, booked } = await startDelivery((numbers) => (numbers.includes(1) ? 422 : 204));
  const { append } = files;
  let failures = 3;
  files.append = (name) => {
    if (name === REJECT_NAME && failures-- > 0) throw new Error("EIO");
    return append.call(files, name);
  };
  for (const number of [1, 2]) spool.append(recordNumber(number));
  delivery.start();
  await clock.advance(LINGER_MS);
  t.deepEqual(booked, []);
  await clock.advance(A_WHILE_MS);
  t.deepEqual(booked, [2]);
  t.is(spool.backlog, 0);
  await delivery.finish(0);
});

test("finishing sends what is there at once, tries nothing twice, and gives up a request at its limit", async (t) => {
  const good = await startDelivery(() => 204);
  good.delivery.start();
  await good.clock.advance(0);
  good.spool.append(recordNumber(1));
  await good.delivery.finish(1_000);
  t.deepEqual(good.booked, [1]);

  const failing = await startDelivery(() => 503);
  failing.spool.append(recordNumber(1));
  failing.delivery.start();
  await failing.clock.advance(0);
  t.is(failing.sent.length, 1);
  await failing.delivery.finish(1_000);
  t.is(failing.sent.length, 2);
  t.is(failing.spool.backlog, 1);

  const silent = await startDelivery(() => new Promise(() => {}));
  silent.spool.append(recordNumber(1));
  silent.delivery.start();
  await silent.clock.advance(0);
  const finished = silent.delivery.finish(1_000);
  await silent.clock.advance(1_000);
  await finished;
  t.is(silent.spool.backlog, 1);
});

const beat = () =>
  heartbeatSchema.parse({
    agent_id: "gpu-7",
    sent_at_ms: 1,
    state: "ready",
    models: ["atlas"],
    replicas: [],
    inflight: 0,
    waiting: 0,
    free_slots: 0,
    tokens_per_second: null,
    usage_backlog: 0,
  });

test("a heartbeat goes out after each interval and when asked for, one at a time, and failures do not stop them", async (t) => {
  const clock = new ManualClock();
  const logged: string[] = [];
  let sent = 0;
  let answer: () => Promise<number> = async () => 204;
  const sender = new HeartbeatSender({
    beat,
    intervalMs: 1_000,
    clock,
    log: (_, event) => void logged.push(event),
    post: (path) => {
      t.is(path, HEARTBEAT_PATH);
      sent++;
      return answer();
    },
  });
  sender.start();
  await promiseJobs();
  t.is(sent, 1);
  await clock.advance(999);
  t.is(sent, 1);
  await clock.advance(1);
  t.is(sent, 2);
  sender.hurry();
  await promiseJobs();
  t.is(sent, 3);
  answer = () => Promise.reject(new Error("ECONNREFUSED"));
  await clock.advance(1_000);
  answer = async () => 500;
  await clock.advance(1_000);
  t.deepEqual(logged, ["heartbeats_do_not_arrive"]);
  const slow = Promise.withResolvers<number>();
  answer = () => slow.promise;
  await clock.advance(5_000);
  t.is(sent, 6);
  slow.resolve(204);
  await promiseJobs();
  t.deepEqual(logged, ["heartbeats_do_not_arrive", "heartbeats_arrive"]);
  t.is(sent, 7);
  await sender.stop();
  await clock.advance(5_000);
  t.is(sent, 7);
});

test("a sender that finishes sends what was asked for behind the heartbeat in flight, and gives up what is not answered in time", async (t) => {
  for (const answered of [true, false]) {
    const clock = new ManualClock();
    const answers: PromiseWithResolvers<number>[] = [];
    const sender = new HeartbeatSender({
      beat,
      intervalMs: 1_000,
      clock,
      log: () => {},
      post: (_path, _json, signal) => {
        const answer = Promise.withResolvers<number>();
        signal.addEventListener("abort", () => answer.reject(signal.reason));
        answers.push(answer);
        return answer.promise;
      },
    });
    sender.start();
    await promiseJobs();
    sender.hurry();
    let finished = false;
    const finishing = sender.finish(500).then(() => {
      finished = true;
    });
    if (answered) {
      for (const number of [0, 1]) {
        t.is(answers.length, number + 1);
        t.false(finished);
        answers[number]?.resolve(204);
        await promiseJobs();
      }
    } else {
      await clock.advance(499);
      t.false(finished);
      await clock.advance(1);
    }
    await finishing;
    await clock.advance(5_000);
    t.is(answers.length, answered ? 2 : 1);
    t.is(clock.pending, 0, "no timer is left");
  }
});
