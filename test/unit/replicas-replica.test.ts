import test from "ava";
import { StartFailed } from "../../gpu-agent/src/replicas/errors.ts";
import { type FakeFleet, promiseJobs, spawnFleet, startFleet, testLimits } from "../helpers/fake-engine.ts";

const spawns = (fleet: FakeFleet): number | undefined => fleet.engines[0]?.processes.length;
const crash = (fleet: FakeFleet, code = 1): Promise<void> => fleet.process(0).exit({ code, signal: null });

test("a replica is ready at its engine's READY", async (t) => {
  const fleet = spawnFleet(1);
  t.is(fleet.replica(0).state, "starting");
  await fleet.process(0).say("READY 4096");
  t.is(fleet.replica(0).state, "ready");
  t.is((await fleet.replica(0).firstReady).maxContext, 4096);
  t.is(fleet.clock.pending, 0);
});

test("an engine that is not READY in time is killed and started again after the pause", async (t) => {
  const fleet = spawnFleet(1);
  await fleet.clock.advance(testLimits.readyTimeoutMs - 1);
  t.deepEqual(fleet.process(0).signals, []);
  await fleet.clock.advance(1);
  t.deepEqual(fleet.process(0).signals, ["SIGKILL"]);
  t.is(fleet.replica(0).state, "cooling");
  await fleet.clock.advance(testLimits.readyRetryMs - 1);
  t.is(spawns(fleet), 1);
  await fleet.clock.advance(1);
  t.is(spawns(fleet), 2);
  await fleet.process(0).say("READY 4096");
  t.is(fleet.replica(0).state, "ready");
});

test("after the named number of starts a replica has failed, and is not started again", async (t) => {
  const fleet = spawnFleet(1);
  for (let tries = 1; tries <= testLimits.readyTries; tries++) {
    t.is(spawns(fleet), tries);
    await crash(fleet);
    await fleet.clock.advance(testLimits.readyRetryMs);
  }
  t.is(fleet.replica(0).state, "failed");
  t.is((await t.throwsAsync(fleet.replica(0).firstReady, { instanceOf: StartFailed })).exitCode, 1);
  await fleet.clock.advance(10 * testLimits.healCooldownMs);
  t.is(spawns(fleet), testLimits.readyTries);
  t.is(fleet.clock.pending, 0);
});

test("an exit code that another start cannot mend fails the replica at once", async (t) => {
  for (const code of [64, 65, 66, 69, 78]) {
    const fleet = spawnFleet(1);
    await crash(fleet, code);
    t.is(fleet.replica(0).state, "failed", String(code));
    t.is((await t.throwsAsync(fleet.replica(0).firstReady, { instanceOf: StartFailed })).exitCode, code);
    await fleet.clock.advance(10 * testLimits.readyRetryMs);
    t.is(spawns(fleet), 1);
  }
});

test("any other exit code before READY is worth another start", async (t) => {
  for (const code of [0, 1, 70, 71, 75, 127, 134]) {
    const fleet = spawnFleet(1);
    await crash(fleet, code);
    t.is(fleet.replica(0).state, "cooling", String(code));
  }
});

test("a lost engine is forgotten, cools down and is started again", async (t) => {
  const fleet = await startFleet(1);
  fleet.pool.index.note(0, [1n]);
  const { process } = fleet.engines[0] as FakeFleet["engines"][number];
  await process.say("READY 1");
  t.is(fleet.pool.index.size, 0);
  t.deepEqual(fleet.states, ["0 starting", "0 ready", "0 poisoned", "0 cooling"]);
  t.regex(fleet.replica(0).reason, /READY twice/);
  await fleet.clock.advance(testLimits.healCooldownMs - 1);
  t.is(spawns(fleet), 1);
  await fleet.clock.advance(1);
  t.is(spawns(fleet), 2);
  t.is(fleet.replica(0).heals, 1);
  t.not(fleet.process(0), process);
  await fleet.process(0).say("READY 4096 stop turns");
  t.deepEqual(fleet.states.slice(4), ["0 starting", "0 ready"]);
  t.is(fleet.replica(0).reason, "");
});

test("a replica that was ready once is not given up when a later start fails", async (t) => {
  const fleet = await startFleet(1);
  await crash(fleet);
  await fleet.clock.advance(testLimits.healCooldownMs);
  for (let tries = 0; tries < 3 * testLimits.readyTries; tries++) {
    await crash(fleet);
    t.is(fleet.replica(0).state, "cooling");
    await fleet.clock.advance(testLimits.readyRetryMs);
  }
  await fleet.process(0).say("READY 4096 stop turns");
  t.is(fleet.replica(0).state, "ready");
});

test("a process that outlives SIGKILL is abandoned by its pid, and never replaced", async (t) => {
  const fleet = await startFleet(1);
  fleet.process(0).immortal = true;
  await fleet.process(0).end();
  t.is(fleet.replica(0).state, "poisoned");
  await fleet.clock.advance(testLimits.killTimeoutMs);
  t.is(fleet.replica(0).state, "abandoned");
  t.regex(fleet.replica(0).reason, new RegExp(String(fleet.process(0).pid)));
  await fleet.clock.advance(10 * testLimits.healCooldownMs);
  t.is(spawns(fleet), 1);
});

test("a start whose process outlives SIGKILL tells the one who waits for READY", async (t) => {
  const fleet = spawnFleet(1);
  fleet.process(0).immortal = true;
  await fleet.clock.advance(testLimits.readyTimeoutMs + testLimits.killTimeoutMs);
  t.is(fleet.replica(0).state, "abandoned");
  await t.throwsAsync(fleet.replica(0).firstReady);
});

/** Brings a fresh replica into a state, and says what stop() has to wait for there. */
const statesToStop: readonly {
  readonly name: string;
  readonly reach: () => Promise<FakeFleet>;
  readonly waitMs: number;
}[] = [
  { name: "starting", reach: async () => spawnFleet(1), waitMs: testLimits.quitTimeoutMs },
  { name: "ready", reach: () => startFleet(1), waitMs: testLimits.quitTimeoutMs },
  {
    name: "ready, with a turn that runs",
    reach: async () => {
      const fleet = await startFleet(1);
      fleet.replica(0).engine?.lane(0).begin(1, 5, 0);
      return fleet;
    },
    waitMs: testLimits.quitTimeoutMs,
  },
  {
    name: "poisoned",
    reach: async () => {
      const fleet = await startFleet(1);
      fleet.process(0).immortal = true;
      await fleet.process(0).end();
      fleet.process(0).immortal = false;
      return fleet;
    },
    waitMs: testLimits.killTimeoutMs,
  },
  {
    name: "cooling",
    reach: async () => {
      const fleet = await startFleet(1);
      await crash(fleet);
      return fleet;
    },
    waitMs: 0,
  },
  {
    name: "cooling before its first READY",
    reach: async () => {
      const fleet = spawnFleet(1);
      await crash(fleet);
      return fleet;
    },
    waitMs: 0,
  },
];

for (const { name, reach, waitMs } of statesToStop) {
  test(`stop ends a replica that is ${name}: nothing is started, no timer is left`, async (t) => {
    const fleet = await reach();
    const { inflight } = fleet.pool;
    let stopped = false;
    const stopping = Promise.all([fleet.replica(0).stop(), fleet.replica(0).stop()]).then(() => {
      stopped = true;
    });
    await promiseJobs();
    t.is(stopped, waitMs === 0);
    if (name === "poisoned") await fleet.process(0).exit({ code: null, signal: "SIGKILL" });
    else await fleet.clock.advance(waitMs);
    await stopping;
    t.is(fleet.replica(0).state, "stopped");
    t.is(fleet.clock.pending, 0);
    t.is(fleet.pool.inflight, inflight);
    await fleet.clock.advance(10 * testLimits.healCooldownMs);
    t.is(spawns(fleet), 1);
  });
}

test("stop before READY refuses the one who waits for it", async (t) => {
  const fleet = spawnFleet(1);
  const stopping = fleet.replica(0).stop();
  await fleet.process(0).exit({ code: 0, signal: null });
  await stopping;
  await t.throwsAsync(fleet.replica(0).firstReady, { instanceOf: StartFailed });
});

test("stop leaves a failed and an abandoned replica what they are", async (t) => {
  const failed = spawnFleet(1);
  await crash(failed, 66);
  await failed.replica(0).stop();
  t.is(failed.replica(0).state, "failed");
  const abandoned = await startFleet(1);
  abandoned.process(0).immortal = true;
  await abandoned.process(0).end();
  await abandoned.clock.advance(testLimits.killTimeoutMs);
  await abandoned.replica(0).stop();
  t.is(abandoned.replica(0).state, "abandoned");
});
