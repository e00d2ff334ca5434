import assert from "node:assert/strict";
import test from "ava";
import fc from "fast-check";
import { StartFailed } from "../../gpu-agent/src/replicas/errors.ts";
import { HEALTHY_AGAIN_MS, healPauseMs } from "../../gpu-agent/src/replicas/heal.ts";
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
  t.is(fleet.replica(0).state, "healing");
  await fleet.clock.advance(testLimits.readyRetryMs - 1);
  t.is(spawns(fleet), 1);
  await fleet.clock.advance(1);
  t.is(spawns(fleet), 2);
  await fleet.process(0).say("READY 4096");
  t.is(fleet.replica(0).state, "ready");
});

test("after the named number of starts a replica is dead, and is not started again", async (t) => {
  const fleet = spawnFleet(1);
  for (let tries = 1; tries <= testLimits.readyTries; tries++) {
    t.is(spawns(fleet), tries);
    await crash(fleet);
    await fleet.clock.advance(testLimits.readyRetryMs);
  }
  t.is(fleet.replica(0).state, "dead");
  t.is((await t.throwsAsync(fleet.replica(0).firstReady, { instanceOf: StartFailed })).exitCode, 1);
  await fleet.clock.advance(10 * testLimits.healCooldownMs);
  t.is(spawns(fleet), testLimits.readyTries);
  t.is(fleet.clock.pending, 0);
});

test("an exit code that another start cannot mend ends the replica at once", async (t) => {
  for (const code of [64, 65, 66, 69, 78, 126, 127]) {
    const fleet = spawnFleet(1);
    await crash(fleet, code);
    t.is(fleet.replica(0).state, "dead", String(code));
    t.is((await t.throwsAsync(fleet.replica(0).firstReady, { instanceOf: StartFailed })).exitCode, code);
    await fleet.clock.advance(10 * testLimits.readyRetryMs);
    t.is(spawns(fleet), 1);
  }
});

test("any other exit code before READY is worth another start", async (t) => {
  for (const code of [0, 1, 70, 71, 75, 134]) {
    const fleet = spawnFleet(1);
    await crash(fleet, code);
    t.is(fleet.replica(0).state, "healing", String(code));
  }
});

test("a lost engine is forgotten, cools down and is started again", async (t) => {
  const fleet = await startFleet(1);
  fleet.pool.index.note(0, [1n]);
  const { process } = fleet.engines[0] as FakeFleet["engines"][number];
  await process.say("READY 1");
  t.is(fleet.pool.index.size, 0);
  t.deepEqual(fleet.states, ["0 starting", "0 ready", "0 poisoned", "0 healing"]);
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

test("a replica that was ready once is not given up when later starts fail; each pause is twice the last, to a bound", async (t) => {
  const fleet = await startFleet(1);
  for (let losses = 1; losses <= 4 * testLimits.readyTries; losses++) {
    // A file or a device that is away for a while (66, 69) is no reason to give a replica up that has worked.
    await crash(fleet, losses % 2 === 0 ? 66 : 1);
    t.is(fleet.replica(0).state, "healing");
    t.regex(fleet.replica(0).reason, /exit code (1|66)/);
    const pauseMs = healPauseMs(losses, testLimits.healCooldownMs);
    t.is((fleet.replica(0).healAtMs ?? 0) - fleet.replica(0).sinceMs, pauseMs);
    await fleet.clock.advance(pauseMs - 1);
    t.is(spawns(fleet), losses);
    await fleet.clock.advance(1);
    t.is(spawns(fleet), losses + 1);
    t.regex(fleet.replica(0).reason, /exit code (1|66)/, "the reason is kept while it starts");
    t.is(fleet.replica(0).healAtMs, undefined);
  }
  await fleet.process(0).say("READY 4096 stop turns");
  t.is(fleet.replica(0).state, "ready");
  t.is(fleet.replica(0).heals, 4 * testLimits.readyTries);
});

test("after a time of health the first pause holds again", async (t) => {
  const fleet = await startFleet(1);
  for (const [healthyMs, losses] of [
    [0, 1],
    [HEALTHY_AGAIN_MS - 1, 2],
    [HEALTHY_AGAIN_MS, 1],
  ] as const) {
    await fleet.clock.advance(healthyMs);
    await crash(fleet);
    const before = spawns(fleet) ?? 0;
    await fleet.clock.advance(healPauseMs(losses, testLimits.healCooldownMs) - 1);
    t.is(spawns(fleet), before);
    await fleet.clock.advance(1);
    t.is(spawns(fleet), before + 1);
    await fleet.process(0).say("READY 4096 stop turns");
  }
});

test("new bounds hold from the next start of an engine on", async (t) => {
  const fleet = await startFleet(1);
  fleet.replica(0).setLimits({ ...testLimits, healCooldownMs: 10, readyTimeoutMs: 20 });
  await crash(fleet);
  await fleet.clock.advance(10);
  t.is(spawns(fleet), 2);
  await fleet.clock.advance(20);
  t.regex(fleet.replica(0).reason, /not READY in time/);
});

test("a replica whose leases are all held is busy; one with a stuck slot is quarantined until it is killed", async (t) => {
  const fleet = await startFleet(1, "stop turns slots=2");
  const { engine } = fleet.replica(0);
  const never = new AbortController().signal;
  await engine?.leases.acquire(never);
  t.is(fleet.replica(0).state, "ready");
  await engine?.leases.acquire(never);
  t.is(fleet.replica(0).state, "busy");
  for (const slot of [0, 1]) engine?.lane(slot).begin(slot + 1, 5, 0);
  if (engine !== undefined) void engine.quarantine(engine.lane(0), "no DONE (turn 1)");
  if (engine !== undefined) void engine.quarantine(engine.lane(1), "no DONE (turn 2)");
  await promiseJobs();
  t.is(fleet.replica(0).state, "quarantined");
  t.is(fleet.replica(0).reason, "no DONE (turn 1)");
  await fleet.clock.advance(testLimits.poisonGraceMs);
  t.is(fleet.replica(0).state, "healing");
  t.deepEqual(fleet.states.slice(2), ["0 quarantined", "0 poisoned", "0 healing"]);
});

test("a draining replica finishes what runs, and is not started again when it is lost", async (t) => {
  const fleet = await startFleet(1);
  fleet.replica(0).drain();
  t.is(fleet.replica(0).state, "draining");
  t.true(fleet.replica(0).engine?.usable);
  await crash(fleet);
  t.is(fleet.replica(0).state, "dead");
  await fleet.clock.advance(10 * testLimits.healCooldownMs);
  t.is(spawns(fleet), 1);
});

test("property: whatever happens in whatever order, a replica never takes an impossible event and always ends", async (t) => {
  const happenings: Readonly<Record<string, (fleet: FakeFleet) => unknown>> = {
    ready: (fleet) => fleet.process(0).say("READY 4096 stop turns slots=2"),
    garbage: (fleet) => fleet.process(0).say("T four"),
    end: (fleet) => fleet.process(0).end(),
    crash: (fleet) => crash(fleet),
    final: (fleet) => crash(fleet, 66),
    immortal: (fleet) => {
      fleet.process(0).immortal = true;
    },
    stuck: (fleet) => {
      const { engine } = fleet.replica(0);
      if (engine?.lanes.length !== 2) return;
      for (const slot of [0, 1]) engine.lane(slot).begin(slot + 1, 5, 0);
      void engine.quarantine(engine.lane(0), "stuck");
    },
    wait: (fleet) => fleet.clock.advance(250),
    waitLong: (fleet) => fleet.clock.advance(6_000),
    drain: (fleet) => fleet.replica(0).drain(),
    kill: (fleet) => void fleet.replica(0).kill(),
    stop: (fleet) => void fleet.replica(0).stop(),
  };
  await t.notThrowsAsync(
    fc.assert(
      fc.asyncProperty(fc.array(fc.constantFrom(...Object.keys(happenings)), { maxLength: 20 }), async (names) => {
        const fleet = spawnFleet(1);
        for (const name of names) {
          await happenings[name]?.(fleet);
          await promiseJobs();
        }
        const stopping = fleet.replica(0).stop(); // rejects with what the life of the replica threw
        await fleet.clock.advance(testLimits.quitTimeoutMs + testLimits.killTimeoutMs + testLimits.poisonGraceMs);
        await stopping;
        assert.ok(["dead", "abandoned"].includes(fleet.replica(0).state));
        assert.equal(fleet.clock.pending, 0);
      }),
    ),
  );
});

test("kill asks nothing: SIGKILL, and no timer is left", async (t) => {
  const fleet = await startFleet(1);
  await fleet.replica(0).kill();
  t.deepEqual(fleet.process(0).written, []);
  t.deepEqual(fleet.process(0).signals, ["SIGKILL"]);
  t.is(fleet.replica(0).state, "dead");
  t.is(fleet.clock.pending, 0);
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
    name: "healing",
    reach: async () => {
      const fleet = await startFleet(1);
      await crash(fleet);
      return fleet;
    },
    waitMs: 0,
  },
  {
    name: "healing before its first READY",
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
    t.is(fleet.replica(0).state, "dead");
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

test("stop leaves a dead and an abandoned replica what they are", async (t) => {
  const failed = spawnFleet(1);
  await crash(failed, 66);
  await failed.replica(0).stop();
  t.is(failed.replica(0).state, "dead");
  const abandoned = await startFleet(1);
  abandoned.process(0).immortal = true;
  await abandoned.process(0).end();
  await abandoned.clock.advance(testLimits.killTimeoutMs);
  await abandoned.replica(0).stop();
  t.is(abandoned.replica(0).state, "abandoned");
});
