import test from "ava";
import {
  LOST_RETRY_MAX_MS,
  LOST_RETRY_MIN_MS,
  MAX_LOST_OF_ALARM,
  MAX_OPEN_IN_VIEW,
  WRITE_DELAY_MS,
} from "../../edge/src/admit/guard-core.ts";
import type { KeyLimits } from "../../edge/src/admit/key-guard-types.ts";
import { LEASE_MS } from "../../edge/src/admit/leases.ts";
import { SETTLE_WAIT_MS } from "../../edge/src/admit/reservations.ts";
import { WINDOW_MS } from "../../edge/src/admit/sliding-window.ts";
import { MAX_WAITING_TAKERS, TAKE_WAIT_MS } from "../../edge/src/admit/waiting-takers.ts";
import { GuardWorld } from "../helpers/guard-world.ts";
import { keyDefinition, noLimits, takeRequest } from "../helpers/key-guard.ts";

const worldWith = async (limits: Partial<KeyLimits> = {}): Promise<GuardWorld> => {
  const world = await GuardWorld.start();
  await world.guard.define(keyDefinition({ limits: { ...noLimits, ...limits } }));
  return world;
};

/** Takes, and tells what came of it without waiting for it. */
const begin = (world: GuardWorld, changed: Parameters<typeof takeRequest>[0] = {}) => {
  const request = takeRequest(changed);
  const taken = { request, outcome: "waiting" };
  void world.guard.take(request).then((verdict) => {
    taken.outcome = verdict.kind === "admitted" ? "admitted" : verdict.cause;
  });
  return taken;
};

const takeNow = async (world: GuardWorld, changed: Parameters<typeof takeRequest>[0] = {}) => {
  const taken = begin(world, changed);
  await world.wait(0);
  return taken;
};

const month = (world: GuardWorld) => new Date(world.nowMs).toISOString().slice(0, 7);

test("a guard that was never given a key refuses, answers nothing and writes nothing, whatever it is told", async (t) => {
  const world = await GuardWorld.start();
  t.is((await takeNow(world)).outcome, "no_such_key");
  world.guard.renew(takeRequest());
  world.guard.release({ requestId: "req_x", agent: "a" });
  await world.guard.settle({ monthTokens: { [month(world)]: 5 }, turns: [] });
  t.is(world.guard.view(), undefined);
  await world.guard.alarm();
  await world.wait(10 * WRITE_DELAY_MS);
  t.deepEqual(world.storage.keys, []);
  t.is(world.storage.alarmMs, null);
});

test("a taker that finds only a lease in its way gets the next one that is freed", async (t) => {
  const world = await worldWith({ concurrency: 1 });
  const first = await takeNow(world);
  const second = await takeNow(world);
  t.is(second.outcome, "waiting");
  await world.wait(TAKE_WAIT_MS - 1);
  world.guard.release({ requestId: first.request.requestId, agent: "a" });
  await world.wait(0);
  t.is(second.outcome, "admitted");
  t.is(world.guard.view()?.leases, 1);
});

test("a record that ends its request, and a lease that runs out, let the next one in as well", async (t) => {
  const world = await worldWith({ concurrency: 1 });
  const { requestId } = (await takeNow(world)).request;
  const second = await takeNow(world);
  const turn = { requestId, agentId: "a", turnId: `${requestId}.1`, tokens: 1, endsRequest: true };
  await world.guard.settle({ monthTokens: {}, turns: [turn] });
  await world.wait(0);
  t.is(second.outcome, "admitted");
  await world.wait(LEASE_MS);
  t.is((await takeNow(world)).outcome, "admitted");
});

test("leases that run out and requests that are lost are counted once each", async (t) => {
  const world = await worldWith();
  await takeNow(world);
  await takeNow(world);
  const released = await takeNow(world);
  world.guard.release({ requestId: released.request.requestId, agent: "a" });
  await world.wait(LEASE_MS + SETTLE_WAIT_MS + 10 * WRITE_DELAY_MS);
  t.is(world.lost.length, 3);
  t.deepEqual(Object.fromEntries(world.counted), { leases_expired_total: 2, requests_lost_total: 3 });
});

test("nobody waits longer than the wait", async (t) => {
  const world = await worldWith({ concurrency: 1 });
  await takeNow(world);
  const early = await takeNow(world);
  await world.wait(100);
  const late = await takeNow(world);
  await world.wait(TAKE_WAIT_MS - 101);
  t.deepEqual([early.outcome, late.outcome], ["waiting", "waiting"]);
  await world.wait(1);
  t.deepEqual([early.outcome, late.outcome], ["concurrency", "waiting"]);
  await world.wait(100);
  t.is(late.outcome, "concurrency");
});

test("those who wait are served in their order, and at most so many wait", async (t) => {
  const world = await worldWith({ concurrency: 1 });
  const holder = await takeNow(world);
  const waiting = Array.from({ length: MAX_WAITING_TAKERS }, () => begin(world));
  await world.wait(0);
  t.is(world.guard.view()?.waiting, MAX_WAITING_TAKERS);
  t.is((await takeNow(world)).outcome, "concurrency");
  let held = holder.request.requestId;
  for (const [index, taker] of waiting.entries()) {
    world.guard.release({ requestId: held, agent: null });
    await world.wait(0);
    t.is(taker.outcome, "admitted");
    t.true(waiting.slice(index + 1).every(({ outcome }) => outcome === "waiting"));
    held = taker.request.requestId;
  }
});

test("only a lease is waited for, and who waits is judged anew when it is there", async (t) => {
  const world = await worldWith({ concurrency: 1, requestsPerMinute: 2 });
  const first = await takeNow(world);
  const waiting = [await takeNow(world), await takeNow(world)];
  world.guard.release({ requestId: first.request.requestId, agent: null });
  await world.wait(0);
  t.deepEqual(
    waiting.map(({ outcome }) => outcome),
    ["admitted", "requests_per_minute"],
  );
  t.is((await takeNow(world)).outcome, "requests_per_minute");
});

test("who waits while the key is revoked is refused", async (t) => {
  const world = await worldWith({ concurrency: 1 });
  const first = await takeNow(world);
  const second = await takeNow(world);
  await world.guard.define(keyDefinition({ limits: { ...noLimits, concurrency: 1 }, revokedAtMs: world.nowMs }));
  world.guard.release({ requestId: first.request.requestId, agent: null });
  await world.wait(0);
  t.is(second.outcome, "revoked");
});

test("many that wait, one after another, leave one timer behind", async (t) => {
  const world = await worldWith({ concurrency: 1 });
  let holder = await takeNow(world);
  for (let round = 0; round < 20; round += 1) {
    const next = await takeNow(world);
    world.guard.release({ requestId: holder.request.requestId, agent: null });
    await world.wait(0);
    holder = next;
  }
  // One for the wait, one for the write.
  t.true(world.timers <= 2);
});

test("100 at once against ten leases and against ten requests a minute: exactly ten", async (t) => {
  for (const limits of [{ concurrency: 10 }, { requestsPerMinute: 10 }]) {
    const world = await worldWith(limits);
    const all = Array.from({ length: 100 }, () => begin(world));
    await world.wait(TAKE_WAIT_MS);
    t.is(all.filter(({ outcome }) => outcome === "admitted").length, 10);
  }
});

test("on the path of a request nothing is written; what it changed is, a second later", async (t) => {
  const world = await worldWith({ requestsPerMinute: 10, tokensPerMinute: 1000, concurrency: 10 });
  const before = world.storage.calls;
  const { requestId } = (await takeNow(world)).request;
  world.guard.renew({ requestId, estimatedTokens: 100 });
  await world.wait(WRITE_DELAY_MS - 1);
  t.is(world.storage.calls, before);
  await world.wait(1);
  t.true(world.storage.calls > before);
  await world.loseMemory();
  t.like(world.guard.view(), { leases: 1, rateLimits: { requests: { remaining: 9 }, tokens: { remaining: 900 } } });
});

test("a guard that loses its memory has forgotten at most what was admitted within one write delay", async (t) => {
  const limit = 20;
  const world = await worldWith({ requestsPerMinute: limit });
  const admittedAtMs: number[] = [];
  let losses = 0;
  for (let step = 0; step < 1000; step += 1) {
    if ((await takeNow(world)).outcome === "admitted") admittedAtMs.push(world.nowMs);
    await world.wait(130);
    if (step % 37 === 36) {
      await world.loseMemory();
      losses += 1;
    }
  }
  const perDelay = Math.ceil(WRITE_DELAY_MS / 130);
  for (const atMs of admittedAtMs) {
    const inWindow = admittedAtMs.filter((other) => other > atMs - WINDOW_MS && other <= atMs).length;
    t.true(inWindow <= limit + losses * perDelay);
  }
  t.true(admittedAtMs.length > limit);
});

test("a renewal gives a guard that lost its memory the lease back", async (t) => {
  const world = await worldWith({ concurrency: 1 });
  const { request } = await takeNow(world);
  await world.loseMemory();
  t.is(world.guard.view()?.leases, 0);
  world.guard.renew(request);
  t.is(world.guard.view()?.leases, 1);
  world.guard.release({ requestId: request.requestId, agent: "a" });
  t.is(world.guard.view()?.leases, 0);
});

test("a revocation and a month's tokens that were confirmed outlive any loss of memory", async (t) => {
  const world = await worldWith({ tokensPerMonth: 1000 });
  await world.guard.settle({ monthTokens: { [month(world)]: 950 }, turns: [] });
  await world.loseMemory();
  t.is((await takeNow(world)).outcome, "monthly_budget");
  await world.guard.settle({ monthTokens: { [month(world)]: 10 }, turns: [] });
  t.is(world.guard.view()?.monthTokens, 950);
  await world.guard.define(keyDefinition({ revokedAtMs: world.nowMs }));
  await world.loseMemory();
  t.is((await takeNow(world)).outcome, "revoked");
});

test("a change that was made from another definition than the present one is not taken", async (t) => {
  const world = await GuardWorld.start();
  const first = keyDefinition();
  t.true(await world.guard.define(first, null));
  t.false(await world.guard.define(keyDefinition({ tenantId: "other" }), null));
  const revoked = keyDefinition({ revokedAtMs: world.nowMs });
  t.true(await world.guard.define(revoked, first));
  t.false(await world.guard.define(keyDefinition({ models: ["m"] }), first));
  t.deepEqual(world.guard.view()?.definition, revoked);
});

test("whichever call of the storage fails, what was confirmed stays and nothing is let in for ever", async (t) => {
  const limit = 3;
  const budget = 1000;
  const life = async (failAt: number | undefined) => {
    const world = await GuardWorld.start();
    world.storage.failAt = failAt;
    /** Asks until it is done, as the admin API and the agents do; a storage that failed costs the object its memory. */
    const untilDone = async (ask: () => Promise<unknown>): Promise<void> => {
      for (let tries = 0; tries < 3; tries += 1) {
        try {
          await ask();
          return;
        } catch {
          await loseMemory();
        }
      }
      throw new Error("one failure failed it three times");
    };
    // An object that could not be loaded is loaded again for whoever comes next.
    const loseMemory = () => world.loseMemory().catch(() => world.loseMemory());
    const limits = { ...noLimits, requestsPerMinute: limit, concurrency: limit, tokensPerMonth: budget };
    await untilDone(() => world.guard.define(keyDefinition({ limits })));
    const admitted: string[] = [];
    for (let request = 0; request < 8; request += 1) {
      const taken = await takeNow(world);
      if (taken.outcome === "admitted") admitted.push(taken.request.requestId);
      await world.wait(WRITE_DELAY_MS);
    }
    const [requestId = ""] = admitted;
    world.guard.release({ requestId, agent: "a" });
    const turn = { requestId, agentId: "a", turnId: `${requestId}.1`, tokens: 990, endsRequest: true };
    await untilDone(() => world.guard.settle({ monthTokens: { [month(world)]: 990 }, turns: [turn] }));
    await world.wait(WRITE_DELAY_MS);
    await loseMemory();
    const spent = world.guard.view()?.monthTokens;
    await untilDone(() => world.guard.define(keyDefinition({ limits, revokedAtMs: world.nowMs })));
    await loseMemory();
    return { admitted, spent, afterwards: (await takeNow(world)).outcome, calls: world.storage.calls };
  };
  const { calls, ...whole } = await life(undefined);
  t.deepEqual([whole.admitted.length, whole.spent, whole.afterwards], [limit, 990, "revoked"]);
  t.true(calls > 20, String(calls));
  for (let failAt = 1; failAt <= calls; failAt += 1) {
    const { admitted, spent, afterwards } = await life(failAt);
    // One loss of memory may forget the one request of a write delay.
    t.true(admitted.length <= limit + 1, `call ${failAt}: ${admitted.length} admitted`);
    t.deepEqual([spent, afterwards], [990, "revoked"], `call ${failAt}`);
  }
});

test("a write that fails is tried again with all that it held", async (t) => {
  const world = await worldWith({ requestsPerMinute: 5, concurrency: 5 });
  await takeNow(world);
  world.storage.failAt = world.storage.calls + 1;
  await world.wait(WRITE_DELAY_MS);
  t.deepEqual(world.errors, ["key_state_not_written"]);
  await world.wait(WRITE_DELAY_MS);
  await world.loseMemory();
  t.like(world.guard.view(), { leases: 1, rateLimits: { requests: { remaining: 4 } } });
});

test("a request without a record is closed as lost by the alarm, and its reservation goes", async (t) => {
  const world = await worldWith({ tokensPerMonth: 150 });
  const { requestId } = (await takeNow(world)).request;
  const startedAtMs = world.nowMs;
  world.guard.release({ requestId, agent: "a" });
  t.is((await takeNow(world)).outcome, "monthly_budget");
  await world.wait(SETTLE_WAIT_MS - 1);
  t.deepEqual(world.lost, []);
  await world.wait(WRITE_DELAY_MS);
  t.like(world.lost[0], { requestId, keyId: keyDefinition().keyId, agentId: "a", estimatedTokens: 100, startedAtMs });
  t.is((await takeNow(world)).outcome, "admitted");
});

test("a lost request is closed also by a guard that has lost its memory since", async (t) => {
  const world = await worldWith();
  const { requestId } = (await takeNow(world)).request;
  await world.wait(WRITE_DELAY_MS);
  await world.loseMemory();
  await world.wait(LEASE_MS + SETTLE_WAIT_MS);
  t.like(world.lost, [{ requestId, agentId: null }]);
  t.deepEqual(world.guard.view()?.open, []);
});

test("a ledger that is away is asked again, later and later, and gets every lost request once", async (t) => {
  const world = await worldWith();
  const requestIds: string[] = [];
  for (let request = 0; request < 3; request += 1) {
    const { requestId } = (await takeNow(world)).request;
    world.guard.release({ requestId, agent: "a" });
    requestIds.push(requestId);
  }
  const refusals = 12;
  world.ledgerRefusals = refusals;
  await world.wait(SETTLE_WAIT_MS + LOST_RETRY_MIN_MS - 1);
  t.is(world.ledgerCalls, 1);
  // Requests that come meanwhile do not bring the next try forward.
  await takeNow(world);
  await world.wait(LOST_RETRY_MIN_MS);
  t.is(world.ledgerCalls, 2);
  await world.wait(refusals * LOST_RETRY_MAX_MS);
  t.is(world.ledgerCalls, refusals + 1);
  t.deepEqual(world.lost.map(({ requestId }) => requestId).slice(0, 3), requestIds);
  t.is(new Set(world.lost.map(({ requestId }) => requestId)).size, world.lost.length);
});

test("one alarm closes a bounded number, and the next follows at once", async (t) => {
  const world = await worldWith();
  const requests = 2 * MAX_LOST_OF_ALARM + 1;
  for (let request = 0; request < requests; request += 1) {
    world.guard.release({ requestId: (await takeNow(world)).request.requestId, agent: "a" });
  }
  await world.wait(SETTLE_WAIT_MS + 1);
  t.is(world.lost.length, requests);
  t.is(world.ledgerCalls, 3);
});

test("the view shows a bounded number of open requests", async (t) => {
  const world = await worldWith();
  for (let request = 0; request <= MAX_OPEN_IN_VIEW; request += 1) await takeNow(world);
  t.is(world.guard.view()?.open.length, MAX_OPEN_IN_VIEW);
  t.is(world.guard.view()?.leases, MAX_OPEN_IN_VIEW + 1);
});
