import test from "ava";
import type { KeyLimits } from "../../edge/src/admit/key-guard-types.ts";
import { KeyState, LEASE_RETRY_MS, MAX_CLOSED_REQUESTS } from "../../edge/src/admit/key-state.ts";
import { LEASE_MS } from "../../edge/src/admit/leases.ts";
import { MAX_OPEN_REQUESTS, MAX_PENDING_REQUESTS, SETTLE_WAIT_MS } from "../../edge/src/admit/reservations.ts";
import { SLOT_MS, WINDOW_MS } from "../../edge/src/admit/sliding-window.ts";
import { monthOf } from "../../edge/src/calendar.ts";
import { noLimits, nowMs, takeRequest } from "../helpers/key-guard.ts";

const month = monthOf(nowMs);

const started = (limits: Partial<KeyLimits> = {}) => {
  const state = new KeyState();
  const all = { ...noLimits, ...limits };
  return {
    state,
    take: (changed: Parameters<typeof takeRequest>[0] = {}, atMs = nowMs) => {
      const request = takeRequest(changed);
      return { request, hit: state.take(all, request, atMs) };
    },
    left: (atMs = nowMs) => {
      const { requests, tokens } = state.rateLimits(all, atMs);
      return { requests: requests?.remaining, tokens: tokens?.remaining };
    },
  };
};

const turnOf = (requestId: string, changed: object = {}) => ({
  requestId,
  agentId: "a",
  turnId: `${requestId}.1`,
  tokens: 30,
  endsRequest: true,
  ...changed,
});

test("field report 16: a request that tokens a minute refuse leaves the requests a minute as they were", (t) => {
  const { take, left } = started({ requestsPerMinute: 10, tokensPerMinute: 150 });
  t.is(take().hit, undefined);
  t.deepEqual(left(), { requests: 9, tokens: 50 });
  t.like(take().hit, { cause: "tokens_per_minute", retryAfterMs: WINDOW_MS + SLOT_MS });
  t.deepEqual(left(), { requests: 9, tokens: 50 });
});

test("what is refused by concurrency or by the month takes nothing either", (t) => {
  for (const limits of [{ concurrency: 1 }, { tokensPerMonth: 150 }]) {
    const { take, left } = started({ requestsPerMinute: 10, tokensPerMinute: 1000, ...limits });
    take();
    t.like(take().hit, { retryAfterMs: LEASE_RETRY_MS });
    t.deepEqual(left(), { requests: 9, tokens: 900 });
  }
});

test("a request above tokens a minute altogether is refused without a time to come back", (t) => {
  const { take } = started({ tokensPerMinute: 50 });
  t.deepEqual(take().hit, { cause: "tokens_per_minute", retryAfterMs: undefined });
});

test("a month that is used up names no time; one that others have reserved does", (t) => {
  const { state, take } = started({ tokensPerMonth: 150 });
  const { request } = take();
  t.deepEqual(take().hit, { cause: "monthly_budget", retryAfterMs: LEASE_RETRY_MS });
  state.settle(turnOf(request.requestId), nowMs);
  state.learnMonths({ [month]: 30 }, nowMs);
  const second = take();
  t.is(second.hit, undefined);
  state.release({ requestId: second.request.requestId, agent: null }, nowMs);
  state.learnMonths({ [month]: 100 }, nowMs);
  t.deepEqual(take().hit, { cause: "monthly_budget", retryAfterMs: undefined });
  // The next month is another one.
  t.is(take({}, nowMs + 31 * 86_400_000).hit, undefined);
});

test("a request without tokens is let in when those of the minute and the month are gone", (t) => {
  const { take } = started({ tokensPerMinute: 100, tokensPerMonth: 100 });
  take();
  t.is(take({ estimatedTokens: 0, scope: "models", model: null }).hit, undefined);
});

test("the record puts its tokens in the place of the estimate, whether it comes before the release or after", (t) => {
  for (const order of [
    ["settle", "release"],
    ["release", "settle"],
  ] as const) {
    const { state, take, left } = started({ tokensPerMinute: 1000 });
    const { request } = take();
    for (const step of order) {
      if (step === "settle") state.settle(turnOf(request.requestId), nowMs + 5000);
      else state.release({ requestId: request.requestId, agent: "a" }, nowMs + 5000);
    }
    t.is(left(nowMs + 5000).tokens, 970);
    t.deepEqual(state.openRequests(10), []);
    t.is(state.leases, 0);
  }
});

test("a request that no agent took gives its tokens back, but not its permit", (t) => {
  const { state, take, left } = started({ requestsPerMinute: 10, tokensPerMinute: 1000 });
  const { request } = take();
  state.release({ requestId: request.requestId, agent: null }, nowMs);
  t.deepEqual(left(), { requests: 9, tokens: 1000 });
});

test("a request with several turns is charged for all, each once", (t) => {
  const { state, take, left } = started({ tokensPerMinute: 1000 });
  const { requestId } = take().request;
  const first = turnOf(requestId, { endsRequest: false, tokens: 7 });
  state.settle(first, nowMs);
  state.settle(first, nowMs);
  t.is(left().tokens, 900);
  t.is(state.leases, 1);
  state.settle(turnOf(requestId, { turnId: `${requestId}.2` }), nowMs);
  t.is(left().tokens, 963);
});

test("an agent that gave up does not end a request that another one runs", (t) => {
  const { state, take } = started({ tokensPerMinute: 1000 });
  const { requestId } = take().request;
  state.settle(turnOf(requestId, { agentId: "first", tokens: 0 }), nowMs);
  state.release({ requestId, agent: "second" }, nowMs);
  t.is(state.openRequests(10)[0]?.agent, "second");
  t.is(state.lost(nowMs + SETTLE_WAIT_MS, SETTLE_WAIT_MS, 10).length, 1);
  state.settle(turnOf(requestId, { agentId: "second" }), nowMs);
  t.deepEqual(state.openRequests(10), []);
});

test("a lease ends by itself, is prolonged by a renewal, and is restored by one after it ran out", (t) => {
  const { state, take } = started({ concurrency: 1 });
  const { request } = take();
  t.like(take({}, nowMs + LEASE_MS - 1).hit, { cause: "concurrency" });
  state.renew(request, nowMs + LEASE_MS - 1);
  t.like(take({}, nowMs + LEASE_MS).hit, { cause: "concurrency" });
  t.true(state.expireLeases(nowMs + 3 * LEASE_MS));
  t.is(state.leases, 0);
  state.renew(request, nowMs + 3 * LEASE_MS);
  t.is(state.leases, 1);
});

test("a renewal restores a request that is not known, and none that has ended", (t) => {
  const { state, take } = started({ concurrency: 1 });
  state.renew({ requestId: "req_forgotten", estimatedTokens: 5 }, nowMs);
  t.like(take().hit, { cause: "concurrency" });
  state.release({ requestId: "req_forgotten", agent: "a" }, nowMs);
  state.renew({ requestId: "req_forgotten", estimatedTokens: 5 }, nowMs);
  t.is(state.leases, 0);
  const { request } = take();
  state.release({ requestId: request.requestId, agent: null }, nowMs);
  state.renew(request, nowMs);
  t.is(state.leases, 0);
});

test("the memory of ended requests is bounded", (t) => {
  const { state, take } = started();
  const first = take().request;
  state.release({ requestId: first.requestId, agent: null }, nowMs);
  for (let ended = 1; ended < MAX_CLOSED_REQUESTS; ended += 1) {
    state.release({ requestId: take().request.requestId, agent: null }, nowMs);
  }
  state.renew(first, nowMs);
  t.is(state.leases, 0);
  state.release({ requestId: take().request.requestId, agent: null }, nowMs);
  state.renew(first, nowMs);
  t.is(state.leases, 1);
});

test("a request whose record does not come is lost after its wait, one whose worker died after its lease too", (t) => {
  const { state, take } = started();
  const told = take().request;
  const silent = take().request;
  take({ estimatedTokens: 0 });
  state.release({ requestId: told.requestId, agent: "a" }, nowMs);
  const lost = (atMs: number) => state.lost(atMs, SETTLE_WAIT_MS, 10).map(({ requestId, agent }) => [requestId, agent]);
  t.is(state.nextLostMs(SETTLE_WAIT_MS), nowMs + SETTLE_WAIT_MS);
  t.deepEqual(lost(nowMs + SETTLE_WAIT_MS - 1), []);
  t.deepEqual(lost(nowMs + SETTLE_WAIT_MS), [[told.requestId, "a"]]);
  state.closeLost([told.requestId]);
  t.is(state.nextLostMs(SETTLE_WAIT_MS), nowMs + LEASE_MS + SETTLE_WAIT_MS);
  t.deepEqual(lost(nowMs + LEASE_MS + SETTLE_WAIT_MS - 1), []);
  t.deepEqual(lost(nowMs + LEASE_MS + SETTLE_WAIT_MS), [[silent.requestId, null]]);
  state.closeLost([silent.requestId]);
  t.is(state.nextLostMs(SETTLE_WAIT_MS), undefined);
  t.deepEqual(state.openRequests(10), []);
});

test("a request whose record came but never its release is not lost", (t) => {
  const { state, take } = started();
  const { requestId } = take().request;
  state.settle(turnOf(requestId), nowMs);
  t.is(state.openRequests(10).length, 1);
  t.deepEqual(state.lost(nowMs + SETTLE_WAIT_MS, SETTLE_WAIT_MS, 10), []);
  t.deepEqual(state.openRequests(10), []);
});

test("above the bound of pending requests the oldest ended one is lost at once, above that of open ones nothing is admitted", (t) => {
  const { state, take } = started();
  const ids: string[] = [];
  for (let index = 0; index < MAX_PENDING_REQUESTS; index += 1) {
    const { requestId } = take().request;
    ids.push(requestId);
    state.release({ requestId, agent: "a" }, nowMs);
  }
  t.deepEqual(state.lost(nowMs, SETTLE_WAIT_MS, 10), []);
  t.is(take().hit, undefined);
  t.true((state.nextLostMs(SETTLE_WAIT_MS) ?? nowMs) <= nowMs);
  t.deepEqual(
    state.lost(nowMs, SETTLE_WAIT_MS, 10).map(({ requestId }) => requestId),
    [ids[0]],
  );
  for (let index = MAX_PENDING_REQUESTS + 1; index < MAX_OPEN_REQUESTS; index += 1) t.is(take().hit, undefined);
  t.deepEqual(take().hit, { cause: "open_requests", retryAfterMs: LEASE_RETRY_MS });
});

test("a request that is told twice is taken once", (t) => {
  const { take, left } = started({ requestsPerMinute: 2, concurrency: 1 });
  const { requestId } = take().request;
  t.is(take({ requestId }).hit, undefined);
  t.deepEqual(left().requests, 1);
});

test("a limit that is changed counts at once, against what was taken before", (t) => {
  const { state } = started();
  const limits = { ...noLimits, requestsPerMinute: 5 };
  for (let request = 0; request < 4; request += 1) t.is(state.take(limits, takeRequest(), nowMs), undefined);
  t.like(state.take({ ...limits, requestsPerMinute: 3 }, takeRequest(), nowMs), { cause: "requests_per_minute" });
  t.deepEqual(state.rateLimits({ ...limits, requestsPerMinute: 3 }, nowMs).requests?.remaining, 0);
});

test("a request that began and ended between two writes is never written", (t) => {
  const { state, take } = started({ concurrency: 5 });
  state.release({ requestId: take().request.requestId, agent: null }, nowMs);
  t.deepEqual(state.changes(), { windows: undefined, changed: [], closed: [] });
  const { requestId } = take().request;
  t.deepEqual(
    state.changes().changed.map((request) => request.requestId),
    [requestId],
  );
  state.release({ requestId, agent: null }, nowMs);
  const changes = state.changes();
  t.deepEqual(changes.closed, [requestId]);
  // What could not be written comes again.
  state.unstored(changes);
  t.deepEqual(state.changes(), changes);
});
