import test from "ava";
import { Engine } from "../../gpu-agent/src/replicas/engine.ts";
import { EngineLost, StartFailed } from "../../gpu-agent/src/replicas/errors.ts";
import { TOKEN_OVERRUN } from "../../gpu-agent/src/replicas/limits.ts";
import {
  doneLine,
  FakeEngine,
  type FakeProcess,
  ManualClock,
  promiseJobs,
  testLimits,
} from "../helpers/fake-engine.ts";

interface Bench {
  readonly engine: Engine;
  readonly process: FakeProcess;
  readonly clock: ManualClock;
  /** Reasons that `onLost` was told. */
  readonly lost: string[];
}

const spawned = (): Bench => {
  const fake = new FakeEngine();
  const clock = new ManualClock();
  const lost: string[] = [];
  const onLost = (reason: string) => void lost.push(reason);
  const engine = new Engine({ spawn: fake.spawn, clock, limits: testLimits, onLost });
  return { engine, process: fake.process, clock, lost };
};

const started = async (capabilities = "stop turns"): Promise<Bench> => {
  const bench = spawned();
  await bench.process.say(`READY 4096 ${capabilities}`);
  return bench;
};

const never = new AbortController().signal;

test("an engine is usable from READY on, with the values of its INFO lines", async (t) => {
  const { engine, process } = spawned();
  t.false(engine.usable);
  await process.say(
    "INFO context=4096 kv=q8_0",
    "a line nobody knows",
    "INFO device=cuda:0",
    "READY 2048 stop slots=3",
  );
  t.true(engine.usable);
  t.deepEqual(await engine.ready, {
    maxContext: 2048,
    capabilities: { stop: true, turns: false, slots: 3 },
    values: new Map<string, string | number>([
      ["context", 4096],
      ["kv", "q8_0"],
      ["device", "cuda:0"],
    ]),
  });
  t.is(engine.lanes.length, 3);
  t.is(engine.leases.slots, 3);
});

test("commands name the slot of a batched engine and the turn of one that tags", async (t) => {
  const address = async (capabilities: string) => (await started(capabilities)).engine.address(1, 7);
  t.deepEqual(await address(""), { slot: undefined, turn: undefined });
  t.deepEqual(await address("turns"), { slot: undefined, turn: 7 });
  t.deepEqual(await address("turns slots=2"), { slot: 1, turn: 7 });
});

test("READY a second time poisons the engine", async (t) => {
  const { engine, process, lost } = await started();
  await process.say("READY 4096 stop turns");
  t.false(engine.usable);
  t.deepEqual(process.signals, ["SIGKILL"]);
  t.deepEqual(lost, ["it broke the protocol: it said READY twice"]);
});

test("a turn's line before READY poisons the engine, and READY never comes", async (t) => {
  for (const line of ["T 5", "BT 0 5", "RESUME 1", doneLine(1, 1), "ERR no"]) {
    const { engine, process } = spawned();
    await process.say(line, "READY 4096");
    t.deepEqual(process.signals, ["SIGKILL"], line);
    t.false(engine.usable);
    await t.throwsAsync(engine.ready, undefined, line);
  }
});

test("an untagged line while no turn runs poisons the engine", async (t) => {
  for (const line of ["T 5", doneLine(1, 1), "ERR late", "RESUME 0", "PP 1 2 3.0 4"]) {
    const { engine, process } = await started("stop");
    await process.say(line);
    t.false(engine.usable, line);
    t.deepEqual(process.signals, ["SIGKILL"]);
  }
});

test("a line with the tag of a turn that does not run is dropped and counted", async (t) => {
  const { engine, process } = await started();
  await process.say("T 5 turn=1", `${doneLine(1, 1)} turn=1`);
  t.is(engine.droppedLines, 2);
  const lane = engine.lane(0);
  lane.begin(2, 5, 0);
  await process.say("T 6 turn=1", `${doneLine(1, 1)} turn=1`, "T 7 turn=2");
  t.is(engine.droppedLines, 4);
  t.deepEqual(lane.take(), [7]);
  t.is(lane.take(), null);
  t.true(engine.usable && lane.running);
});

test("an untagged line of an engine that tags poisons it, also while a turn runs", async (t) => {
  const { engine, process } = await started();
  engine.lane(0).begin(1, 5, 0);
  await process.say("T 5");
  t.false(engine.usable);
});

test("a line for a slot that is not there poisons the engine, batched or not", async (t) => {
  for (const [capabilities, line] of [
    ["turns slots=2", "BT 2 5 turn=1"],
    ["turns slots=2", "T 5 turn=1"],
    ["turns", "BT 0 5 turn=1"],
  ] as const) {
    const { engine, process } = await started(capabilities);
    await process.say(line);
    t.false(engine.usable, line);
    t.deepEqual(process.signals, ["SIGKILL"]);
  }
});

test("one token more than the request and the overrun allow poisons the engine", async (t) => {
  const { engine, process } = await started();
  engine.lane(0).begin(1, 3, 0);
  const allowed = Array.from({ length: 3 + TOKEN_OVERRUN }, () => "T 5 turn=1");
  await process.say(...allowed);
  t.true(engine.usable);
  await process.say("T 5 turn=1");
  t.false(engine.usable);
});

test("a malformed line poisons the engine, and the reason shows it", async (t) => {
  const { engine, process } = await started();
  await process.say("DONE 1 2 NaN 4 stop turn=1");
  t.is(engine.usable, false);
  t.regex(engine.lostReason ?? "", /DONE 1 2 NaN/);
});

test("each slot's lines go to its own lane and mark it alone as alive", async (t) => {
  const { engine, process, clock } = await started("turns slots=2");
  engine.lane(0).begin(1, 5, 0);
  engine.lane(1).begin(2, 5, 0);
  await clock.advance(50);
  await process.say("BT 1 8 turn=2");
  t.is(engine.lane(0).take(), null);
  t.deepEqual(engine.lane(1).take(), [8]);
  t.deepEqual([engine.lane(0).lastLineMs, engine.lane(1).lastLineMs], [0, 50]);
});

test("a line that the grammar does not know is a sign of life of all lanes", async (t) => {
  const { engine, process, clock } = await started("turns slots=2");
  await clock.advance(50);
  await process.say("STATS whatever");
  t.deepEqual([engine.lane(0).lastLineMs, engine.lane(1).lastLineMs], [50, 50]);
  t.true(engine.usable);
});

test("the end of the output is read by every lane and kills the process", async (t) => {
  const { engine, process, lost } = await started("turns slots=2");
  engine.lane(0).begin(1, 5, 0);
  await process.end();
  for (const lane of engine.lanes) t.like(lane.take(), { kind: "eof", reason: "its output ended" });
  t.deepEqual(process.signals, ["SIGKILL"]);
  t.deepEqual(await engine.exited, { code: null, signal: "SIGKILL" });
  t.deepEqual(lost, ["its output ended"]);
});

test("the exit of the process is the end too, whatever comes first", async (t) => {
  const { engine, process, lost } = await started();
  await process.exit({ code: 3, signal: null });
  await process.end();
  t.deepEqual(lost, ["its process ended (exit code 3)"]);
  t.deepEqual(await engine.exited, { code: 3, signal: null });
  t.like(engine.lane(0).take(), { kind: "eof" });
});

test("what a lost engine still says reaches nobody", async (t) => {
  const { engine, process } = await started();
  const lane = engine.lane(0);
  lane.begin(1, 5, 0);
  process.immortal = true;
  await process.end();
  await process.say("T 5 turn=1", `${doneLine(1, 1)} turn=1`);
  t.like(lane.take(), { kind: "eof" });
});

test("an exit before READY is told with its code, also when the output closed before", async (t) => {
  const first = spawned();
  await first.process.exit({ code: 66, signal: null });
  t.is((await t.throwsAsync(first.engine.ready, { instanceOf: StartFailed })).exitCode, 66);
  const second = spawned();
  second.process.immortal = true;
  await second.process.end();
  await second.process.exit({ code: 78, signal: null });
  t.is((await t.throwsAsync(second.engine.ready, { instanceOf: StartFailed })).exitCode, 78);
});

test("poisoning kills once, however often it is asked, and tells when the process is gone", async (t) => {
  const { engine, process, clock, lost } = await started();
  process.immortal = true;
  const ends = [engine.poison("first"), engine.poison("second")];
  await promiseJobs();
  t.deepEqual(process.signals, ["SIGKILL"]);
  await process.exit({ code: null, signal: "SIGKILL" });
  t.deepEqual(await Promise.all(ends), ["gone", "gone"]);
  t.is(await engine.poison("third"), "gone");
  t.deepEqual(lost, ["first"]);
  t.is(clock.pending, 0);
});

test("a process that outlives SIGKILL for the kill time-out is abandoned, not before", async (t) => {
  const { engine, process, clock } = await started();
  process.immortal = true;
  let end: string | undefined;
  void engine.poison("stuck").then((how) => {
    end = how;
  });
  await clock.advance(testLimits.killTimeoutMs - 1);
  t.is(end, undefined);
  await clock.advance(1);
  t.is(end, "abandoned");
});

test("losing the engine refuses the turns that wait, and those that come", async (t) => {
  const { engine } = await started();
  await engine.leases.acquire(never);
  const waiting = engine.leases.acquire(never);
  void engine.poison("lost");
  await t.throwsAsync(waiting, { instanceOf: EngineLost, message: "lost" });
  await t.throwsAsync(engine.leases.acquire(never), { instanceOf: EngineLost });
});

test("an idle engine that is asked to quit goes by itself and is not killed", async (t) => {
  const { engine, process, clock, lost } = await started();
  process.onCommand = (line) => void (line === "QUIT" && process.exit({ code: 0, signal: null }));
  await engine.quit();
  t.deepEqual(process.written, ["QUIT"]);
  t.deepEqual(process.signals, []);
  t.is(lost.length, 1);
  t.is(clock.pending, 0);
  await engine.quit();
  t.deepEqual(process.written, ["QUIT"]);
});

test("an engine that does not quit in time is killed then, not before", async (t) => {
  const { engine, process, clock } = await started();
  const quit = engine.quit();
  await clock.advance(testLimits.quitTimeoutMs - 1);
  t.deepEqual(process.signals, []);
  await clock.advance(1);
  t.deepEqual(process.signals, ["SIGKILL"]);
  await quit;
});

test("a turn that runs while the engine quits reads the end at once", async (t) => {
  const { engine, process, clock } = await started();
  engine.lane(0).begin(1, 5, 0);
  const quit = engine.quit();
  t.like(engine.lane(0).take(), { kind: "eof", reason: "the replica is shutting down" });
  await clock.advance(testLimits.quitTimeoutMs);
  await quit;
  t.deepEqual(process.signals, ["SIGKILL"]);
});

test("a slot that does not exist has no lane", async (t) => {
  const { engine } = await started();
  t.throws(() => engine.lane(1), { message: /no slot 1/ });
});
