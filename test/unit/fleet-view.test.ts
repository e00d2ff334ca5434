import test from "ava";
import type { Agent } from "../../edge/src/fleet/agents-config.ts";
import { OPEN_AT, OPEN_MS } from "../../edge/src/fleet/breaker.ts";
import type { SnapshotReply } from "../../edge/src/fleet/fleet-table.ts";
import {
  FleetView,
  MAX_AGE_MS,
  REFRESH_AGE_MS,
  RETRY_AFTER_FAILURE_MS,
  SNAPSHOT_TIMEOUT_MS,
} from "../../edge/src/fleet/fleet-view.ts";
import { beatOf } from "../helpers/fleet-agents.ts";

const agent = { name: "a", weight: 2, models: ["m"] } as unknown as Agent;

/** A view with a clock, and a Fleet object that says when it was asked and answers as told. */
const setUp = (answer: (since: string | null, nowMs: number) => Promise<SnapshotReply>) => {
  const view = new FleetView();
  const state = { nowMs: 0, asked: [] as (string | null)[], background: [] as Promise<unknown>[] };
  const refresh = (timeoutMs?: number) =>
    view.refresh(
      (since) => {
        state.asked.push(since);
        return answer(since, state.nowMs);
      },
      (work) => void state.background.push(work),
      () => state.nowMs,
      timeoutMs,
    );
  return { view, state, refresh, agents: () => view.agents([agent], state.nowMs) };
};

const replyAt = (nowMs: number, rest: Partial<SnapshotReply> = {}): SnapshotReply =>
  ({
    version: `v${nowMs}`,
    nowMs: 1_000_000 + nowMs,
    rows: [
      {
        name: "a",
        heartbeat: beatOf("a"),
        beatAtMs: 1_000_000 + nowMs - 300,
        beats: 1,
        override: { disabled: false, weight: null },
      },
    ],
    ...rest,
  }) as SnapshotReply;

test("without a snapshot the configuration alone counts", (t) => {
  const { agents } = setUp(async (_, nowMs) => replyAt(nowMs));
  t.like(agents()[0], { name: "a", weight: 2, models: ["m"], heartbeat: undefined, breaker: "closed" });
});

test("the first request waits for a snapshot; a young one is taken as it is, a middling one refreshed behind the answer", async (t) => {
  const { state, refresh, agents } = setUp(async (_, nowMs) => replyAt(nowMs));
  await refresh();
  t.deepEqual(state.asked, [null]);
  t.is(agents()[0]?.beatAgeMs, 300);
  state.nowMs = REFRESH_AGE_MS - 1;
  await refresh();
  t.is(state.asked.length, 1);
  t.is(agents()[0]?.beatAgeMs, 300 + state.nowMs);
  state.nowMs = REFRESH_AGE_MS;
  await refresh();
  await refresh();
  t.deepEqual(state.asked, [null, "v0"], "one fetch in the background is enough");
  t.is(state.background.length, 1);
  await Promise.all(state.background);
  t.is(agents()[0]?.beatAgeMs, 300);
});

test("a snapshot above MAX_AGE_MS is not decided from without a try for a newer one, by each request for itself", async (t) => {
  const { state, refresh } = setUp(async (_, nowMs) => replyAt(nowMs));
  await refresh();
  state.nowMs = MAX_AGE_MS;
  await refresh();
  t.is(state.background.length, 1);
  await Promise.all(state.background);
  state.nowMs = 2 * MAX_AGE_MS + 1;
  await Promise.all([refresh(), refresh()]);
  t.is(state.asked.length, 4);
});

test("an unchanged table keeps its rows and moves the clock", async (t) => {
  const { state, refresh, agents } = setUp(async (since, nowMs) =>
    since === null ? replyAt(nowMs) : ({ version: since, nowMs: 1_000_000 + nowMs, rows: null } as const),
  );
  await refresh();
  state.nowMs = MAX_AGE_MS + 1;
  await refresh();
  t.is(agents()[0]?.beatAgeMs, 300 + state.nowMs);
});

test("a Fleet object that fails or hangs costs a bounded wait once in a while, never an error", async (t) => {
  let fails = true;
  const { state, refresh, agents } = setUp(async (_, nowMs) => {
    if (fails) throw new Error("broken");
    return replyAt(nowMs);
  });
  await refresh();
  t.is(agents()[0]?.heartbeat, undefined);
  state.nowMs = RETRY_AFTER_FAILURE_MS - 1;
  await refresh();
  t.is(state.asked.length, 1);
  state.nowMs = RETRY_AFTER_FAILURE_MS;
  fails = false;
  await refresh();
  t.is(state.asked.length, 2);
  t.not(agents()[0]?.heartbeat, undefined);

  const hanging = setUp(() => new Promise(() => {}));
  await hanging.refresh(1);
  t.is(hanging.agents()[0]?.heartbeat, undefined);
  t.true(SNAPSHOT_TIMEOUT_MS < 1_000);
});

test("field report 26: a fetch that never ends, since its request died, keeps nobody from fetching", async (t) => {
  let dies = false;
  const { state, refresh } = setUp((_, nowMs) => (dies ? new Promise(() => {}) : Promise.resolve(replyAt(nowMs))));
  await refresh();
  dies = true;
  state.nowMs = REFRESH_AGE_MS;
  await refresh();
  dies = false;
  state.nowMs = MAX_AGE_MS + 1;
  await refresh();
  t.is(state.asked.length, 3);
});

test("an older reply does not replace a newer one", async (t) => {
  const late = Promise.withResolvers<SnapshotReply>();
  let first = true;
  const { state, refresh, agents } = setUp((_, nowMs) => {
    if (!first) return Promise.resolve(replyAt(nowMs));
    first = false;
    return late.promise;
  });
  const slow = refresh();
  state.nowMs = 400;
  await refresh();
  late.resolve(replyAt(0));
  await slow;
  t.is(agents()[0]?.beatAgeMs, 300);
});

test("requests under way are counted once each, and never below none", (t) => {
  const { view, agents } = setUp(async (_, nowMs) => replyAt(nowMs));
  const one = view.begin("a", 0, OPEN_MS);
  const two = view.begin("a", 0, OPEN_MS);
  t.is(agents()[0]?.ownInflight, 2);
  one?.ended("success", 0);
  one?.ended("success", 0);
  t.is(agents()[0]?.ownInflight, 1);
  two?.ended("unknown", 0);
  t.is(agents()[0]?.ownInflight, 0);
});

test("of requests that come at once one is the probe, and its client's going away makes room for another", (t) => {
  const { view } = setUp(async (_, nowMs) => replyAt(nowMs));
  for (let failure = 0; failure < OPEN_AT; failure += 1) view.begin("a", 0, OPEN_MS)?.ended("failure", 0);
  t.is(view.begin("a", OPEN_MS - 1, OPEN_MS), undefined);
  const probe = view.begin("a", OPEN_MS, OPEN_MS);
  t.not(probe, undefined);
  t.is(view.begin("a", OPEN_MS, OPEN_MS), undefined);
  probe?.ended("unknown", OPEN_MS);
  const next = view.begin("a", OPEN_MS, OPEN_MS);
  next?.answered(OPEN_MS);
  t.not(view.begin("a", OPEN_MS, OPEN_MS), undefined, "headers let the others in");
});
