import test from "ava";
import { Lane, type LaneMessage } from "../../gpu-agent/src/replicas/lane.ts";
import { MAX_BATCH_TOKENS, TOKEN_OVERRUN } from "../../gpu-agent/src/replicas/limits.ts";
import { parseLine } from "../../gpu-agent/src/replicas/wire.ts";
import { doneLine, promiseJobs } from "../helpers/fake-engine.ts";

const message = (line: string): LaneMessage => parseLine(line) as LaneMessage;
const prefill = (position: number, ms: number): LaneMessage => message(`PP ${position} 100 ${ms} 1`);
const running = (maxTokens = 10): Lane => {
  const lane = new Lane();
  lane.begin(1, maxTokens, 0);
  return lane;
};
const isSettled = async (promise: Promise<unknown>): Promise<boolean> => {
  let settled = false;
  void promise.then(() => {
    settled = true;
  });
  await promiseJobs();
  return settled;
};

test("tokens come out in order, in runs, and a message never within a run", (t) => {
  const lane = running();
  lane.putMessage(message("RESUME 3"));
  for (const id of [5, 6, 7]) lane.putToken(id);
  lane.putMessage(message(doneLine(3, 4)));
  t.like(lane.take(), { kind: "resume", reused: 3 });
  t.deepEqual(lane.take(), [5, 6, 7]);
  t.like(lane.take(), { kind: "done" });
  t.is(lane.take(), null);
});

test("a run holds at most its bound of tokens", (t) => {
  const lane = running(200);
  const ids = Array.from({ length: 2 * MAX_BATCH_TOKENS + 3 }, (_, id) => id);
  for (const id of ids) lane.putToken(id);
  const runs = [lane.take(), lane.take(), lane.take()] as number[][];
  t.deepEqual(
    runs.map((run) => run.length),
    [MAX_BATCH_TOKENS, MAX_BATCH_TOKENS, 3],
  );
  t.deepEqual(runs.flat(), ids);
});

test("progress lines that nobody read pile up to one, and only next to each other", (t) => {
  const lane = running();
  for (let position = 1; position <= 1_000; position++) lane.putMessage(prefill(position, position));
  t.is(lane.lastChunkMs, 1_000);
  lane.putToken(5);
  lane.putMessage(prefill(1_001, 1));
  t.like(lane.take(), { kind: "prefill", position: 1_000 });
  t.deepEqual(lane.take(), [5]);
  t.like(lane.take(), { kind: "prefill", position: 1_001 });
  lane.putMessage(prefill(1_002, 1));
  t.like(lane.take(), { kind: "prefill", position: 1_002 });
  t.is(lane.take(), null);
});

test("a turn may send its tokens and the overrun, and not one more", (t) => {
  const lane = running(10);
  for (let id = 0; id < 10 + TOKEN_OVERRUN; id++) t.true(lane.putToken(id));
  t.false(lane.putToken(999));
  t.false(lane.putToken(999));
});

test("the bound is each turn's own", (t) => {
  const lane = running(1);
  for (let id = 0; id < 1 + TOKEN_OVERRUN; id++) lane.putToken(id);
  lane.putMessage(message(doneLine(1, 1)));
  lane.begin(2, 5, 0);
  for (let id = 0; id < 5 + TOKEN_OVERRUN; id++) t.true(lane.putToken(id));
  t.false(lane.putToken(1));
});

test("the end of the output comes after all that lies there, and then for ever", (t) => {
  const lane = running();
  lane.putToken(5);
  lane.putMessage({ kind: "eof", reason: "first" });
  lane.putMessage({ kind: "eof", reason: "second" });
  t.deepEqual(lane.take(), [5]);
  for (let times = 0; times < 3; times++) t.deepEqual(lane.take(), { kind: "eof", reason: "first" });
});

test("after the end of the output a wait is over at once, also for a turn that begins then", async (t) => {
  const lane = running();
  lane.putMessage({ kind: "eof", reason: "gone" });
  t.true(await isSettled(lane.wait()));
  lane.begin(2, 5, 0);
  t.true(await isSettled(lane.wait()));
  t.deepEqual(lane.take(), { kind: "eof", reason: "gone" });
});

test("a wait ends at a put and at a wake, for two waiters alike, and not before", async (t) => {
  const lane = running();
  const first = [lane.wait(), lane.wait()];
  t.false(await isSettled(Promise.race(first)));
  lane.putToken(1);
  t.true(await isSettled(Promise.all(first)));
  lane.take();
  const second = [lane.wait(), lane.wait()];
  t.false(await isSettled(Promise.race(second)));
  lane.wake();
  t.true(await isSettled(Promise.all(second)));
  t.false(await isSettled(lane.wait()));
});

test("a lane is idle when its turn's DONE, ERR or EOF has come, whether or not it was read", async (t) => {
  for (const last of [message(doneLine(0, 1)), message("ERR no"), { kind: "eof" as const, reason: "gone" }]) {
    const lane = running();
    const idle = lane.idle();
    lane.putToken(1);
    lane.putMessage(prefill(1, 1));
    lane.wake();
    t.false(await isSettled(idle));
    lane.putMessage(last);
    t.true(await isSettled(idle));
    t.false(lane.running);
  }
  t.true(await isSettled(new Lane().idle()));
});

test("a lane takes lines of the running turn and untagged ones, and none while no turn runs", (t) => {
  const lane = new Lane();
  t.false(lane.accepts(-1));
  t.false(lane.accepts(1));
  lane.begin(1, 5, 0);
  t.true(lane.accepts(-1));
  t.true(lane.accepts(1));
  t.false(lane.accepts(2));
  lane.putMessage(message(doneLine(0, 1)));
  t.false(lane.accepts(-1));
  t.false(lane.accepts(1));
});

test("a turn that begins starts its own clock, and knows no chunk of its predecessor", (t) => {
  const lane = running();
  lane.putMessage(prefill(1, 900));
  t.is(lane.lastChunkMs, 900);
  lane.putMessage(message(doneLine(0, 1)));
  lane.begin(2, 5, 123);
  t.is(lane.lastLineMs, 123);
  t.is(lane.lastChunkMs, 0);
});
