import assert from "node:assert/strict";
import test from "ava";
import fc from "fast-check";
import type { KeyLimits } from "../../edge/src/admit/key-guard-types.ts";
import { LEASE_MS } from "../../edge/src/admit/leases.ts";
import { SLOT_MS, WINDOW_MS } from "../../edge/src/admit/sliding-window.ts";
import { monthOf } from "../../edge/src/calendar.ts";
import { nowMs, takeRequest } from "../helpers/key-guard.ts";
import { StoredKeyState } from "../helpers/stored-key-state.ts";

const month = monthOf(nowMs);

/** One admitted request as the model sees it. */
interface Admitted {
  readonly requestId: string;
  readonly atMs: number;
  readonly estimate: number;
  /** What it counts against tokens a minute, and against the month. */
  charge: number;
  reserved: number;
  leaseEndMs: number;
  agent: string | null;
  isOpen: boolean;
  isEnded: boolean;
}

const limitsArbitrary: fc.Arbitrary<KeyLimits> = fc.record({
  requestsPerMinute: fc.option(fc.integer({ min: 1, max: 6 })),
  tokensPerMinute: fc.option(fc.integer({ min: 50, max: 400 })),
  concurrency: fc.option(fc.integer({ min: 1, max: 3 })),
  tokensPerMonth: fc.option(fc.integer({ min: 100, max: 1500 })),
});

const stepArbitrary = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant("take" as const), tokens: fc.integer({ min: 0, max: 120 }) }) },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant("release" as const), which: fc.nat(), agent: fc.constantFrom(null, "a") }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant("settle" as const),
      which: fc.nat(),
      share: fc.double({ min: 0, max: 1, noNaN: true }),
      ends: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("renew" as const), which: fc.nat() }) },
  { weight: 1, arbitrary: fc.constant({ do: "restart" as const }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("wait" as const),
      ms: fc.oneof(fc.integer({ min: 0, max: 3000 }), fc.integer({ min: 0, max: WINDOW_MS + 2 * SLOT_MS })),
    }),
  },
);
type Step = typeof stepArbitrary extends fc.Arbitrary<infer T> ? T : never;

/** Plays steps on a real state and on a plain list of what was admitted; throws where a limit does not hold. */
const play = (limits: KeyLimits, steps: readonly Step[]): void => {
  const stored = new StoredKeyState();
  const admitted: Admitted[] = [];
  let atMs = nowMs;
  let monthTokens = 0;
  const leasesHeld = () => admitted.filter(({ leaseEndMs }) => leaseEndMs > atMs).length;
  const inWindow = (spanMs: number) => admitted.filter((request) => request.atMs > atMs - spanMs);
  const charged = (spanMs: number) => inWindow(spanMs).reduce((sum, { charge }) => sum + charge, 0);
  const reserved = () => admitted.reduce((sum, request) => sum + (request.isOpen ? request.reserved : 0), 0);
  const pick = (which: number): Admitted | undefined => admitted[which % Math.max(1, admitted.length)];
  const end = (request: Admitted, charge: number): void => {
    request.charge = charge;
    request.leaseEndMs = 0;
    request.isOpen = false;
  };
  /** A lease that ran out ends a request that has no turn for good. */
  const expire = (): void => {
    for (const request of admitted) {
      if (request.isOpen && request.leaseEndMs <= atMs && request.estimate === 0) request.isOpen = false;
    }
  };

  const take = (tokens: number): void => {
    const request = takeRequest({ estimatedTokens: tokens });
    const before = JSON.stringify([stored.state.rateLimits(limits, atMs), stored.state.openRequests(1000)]);
    const hit = stored.state.take(limits, request, atMs);
    const { requestsPerMinute, tokensPerMinute, concurrency, tokensPerMonth } = limits;
    if (hit === undefined) {
      admitted.push({
        requestId: request.requestId,
        atMs,
        estimate: tokens,
        charge: tokens,
        reserved: tokens,
        leaseEndMs: atMs + LEASE_MS,
        agent: null,
        isOpen: true,
        isEnded: false,
      });
      assert(inWindow(WINDOW_MS).length <= (requestsPerMinute ?? Number.POSITIVE_INFINITY), "requests a minute");
      if (tokens > 0) assert(charged(WINDOW_MS) <= (tokensPerMinute ?? Number.POSITIVE_INFINITY), "tokens a minute");
      assert(leasesHeld() <= (concurrency ?? Number.POSITIVE_INFINITY), "concurrency");
      if (tokens > 0) assert(monthTokens + reserved() <= (tokensPerMonth ?? Number.POSITIVE_INFINITY), "month");
      return;
    }
    // All or none: a request refused by one limit takes nothing of the others.
    assert.equal(JSON.stringify([stored.state.rateLimits(limits, atMs), stored.state.openRequests(1000)]), before);
    const isReal = {
      requests_per_minute: inWindow(WINDOW_MS + SLOT_MS).length + 1 > (requestsPerMinute ?? 0),
      tokens_per_minute: charged(WINDOW_MS + SLOT_MS) + tokens > (tokensPerMinute ?? 0),
      concurrency: leasesHeld() >= (concurrency ?? 0),
      monthly_budget: monthTokens + reserved() + tokens > (tokensPerMonth ?? 0),
      open_requests: false,
    };
    assert(isReal[hit.cause], `${hit.cause} was no reason`);
  };

  const settle = (request: Admitted, share: number, ends: boolean): void => {
    const tokens = Math.floor(share * request.estimate);
    if (!ends || !request.isOpen || request.estimate === 0 || request.isEnded) return;
    monthTokens += tokens;
    const turn = {
      requestId: request.requestId,
      agentId: "a",
      turnId: `${request.requestId}.1`,
      tokens,
      endsRequest: true,
    };
    for (const _ of ["once", "twice"]) {
      stored.state.learnMonths({ [month]: monthTokens }, atMs);
      stored.state.settle(turn, atMs);
    }
    request.charge = tokens;
    request.reserved = 0;
    request.leaseEndMs = 0;
    request.isEnded = true;
    if (request.agent !== null) end(request, tokens);
  };

  for (const step of steps) {
    switch (step.do) {
      case "take":
        take(step.tokens);
        break;
      case "release": {
        const request = pick(step.which);
        if (request === undefined) break;
        for (const _ of ["once", "twice"])
          stored.state.release({ requestId: request.requestId, agent: step.agent }, atMs);
        if (!request.isOpen || request.agent !== null) break;
        request.leaseEndMs = 0;
        if (step.agent === null || request.estimate === 0) end(request, request.isEnded ? request.charge : 0);
        else if (request.isEnded) end(request, request.charge);
        else request.agent = step.agent;
        break;
      }
      case "settle": {
        const request = pick(step.which);
        if (request !== undefined) settle(request, step.share, step.ends);
        break;
      }
      case "renew": {
        const request = pick(step.which);
        // A worker renews what runs; one that has ended could be taken for new after a restart.
        if (request?.isOpen !== true) break;
        stored.state.renew({ requestId: request.requestId, estimatedTokens: request.estimate }, atMs);
        if (request.agent === null) request.leaseEndMs = atMs + LEASE_MS;
        break;
      }
      case "restart":
        stored.restart();
        break;
      case "wait":
        atMs += step.ms;
        expire();
    }
    stored.state.expireLeases(atMs);
    assert.equal(stored.state.leases, leasesHeld(), `leases after ${step.do}`);
    const open = admitted.filter(({ isOpen }) => isOpen).map(({ requestId }) => requestId);
    assert.deepEqual(
      stored.state
        .openRequests(1000)
        .map(({ requestId }) => requestId)
        .sort(),
      open.sort(),
      step.do,
    );
  }
};

test("no limit is ever exceeded, a refusal has its reason and takes nothing, under any order of events and restarts", (t) => {
  t.notThrows(() =>
    fc.assert(fc.property(limitsArbitrary, fc.array(stepArbitrary, { maxLength: 80 }), play), { numRuns: 400 }),
  );
});
