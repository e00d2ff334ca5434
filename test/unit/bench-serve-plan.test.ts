import assert from "node:assert/strict";
import test from "ava";
import fc from "fast-check";
import type { Load, Sample } from "../../gpu-agent/src/bench/load.ts";
import { MAX_CONNECTIONS, MAX_TURNS, planRound, turnsFor } from "../../gpu-agent/src/bench/serve-plan.ts";
import { mergeSamples, splitLoad } from "../../gpu-agent/src/bench/split-load.ts";

test("each round measures everything once, wherever it begins", (t) => {
  for (let round = 0; round < 5; round++) {
    const names = planRound([1, 4, 16], round, 5).map(({ name, connections }) => `${name} ${connections}`);
    t.deepEqual(
      names.toSorted(),
      [1, 4, 16].flatMap((count) => [`agent ${count}`, `bare ${count}`, `short ${count}`]).toSorted(),
    );
  }
});

test("rounds begin at different numbers of connections", (t) => {
  const begins = [0, 1, 2].map((round) => planRound([1, 4, 16], round, 3)[0]?.connections);
  t.deepEqual(begins, [1, 4, 16]);
});

test("decoder and agent of one number of connections stand side by side, and take turns at being first", (t) => {
  for (const round of [0, 1, 2, 3]) {
    const plan = planRound([1, 4], round, 4);
    for (const count of [1, 4]) {
      const [bare, agent] = (["bare", "agent"] as const).map((name) =>
        plan.findIndex((one) => one.name === name && one.connections === count),
      );
      t.is((agent ?? 0) - (bare ?? 0), round % 2 === 0 ? 1 : -1);
    }
  }
});

test("a measurement is as long as was meant at the decoder's pace, and never shorter than a turn a connection", (t) => {
  t.is(turnsFor(1, 100, 5_000, 2), 100);
  t.is(turnsFor(16, 100, 5_000, 2), 96);
  t.is(turnsFor(256, 100, 5_000, 2), 256);
  t.is(turnsFor(4, 100, 10, 2), 4);
});

test("however fast a model is, a measurement has at most MAX_TURNS turns", (t) => {
  t.is(turnsFor(1, 1, MAX_TURNS, 1), MAX_TURNS);
  t.is(turnsFor(1, 1, MAX_TURNS + 1, 1), MAX_TURNS);
  t.is(turnsFor(MAX_CONNECTIONS, 1, 1e12, 1), MAX_TURNS);
});

test("property: turns are a multiple of the connections, so that all of them end together", (t) => {
  t.notThrows(() =>
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: MAX_CONNECTIONS }),
        fc.double({ min: 0.1, max: 1e6, noNaN: true }),
        (count, pace) => {
          const turns = turnsFor(count, 32, pace, 2);
          assert.equal(turns % count, 0);
          assert.ok(turns >= count && turns <= MAX_TURNS);
        },
      ),
    ),
  );
});

const load = (callers: number, turns: number): Load => ({
  callers,
  turns,
  messages: [],
  maxTokens: 8,
  bannedTokens: [],
  stream: true,
  expected: { tokens: 8 },
});

test("property: no caller and no turn is lost or made up where a load is split", (t) => {
  const counts = fc.integer({ min: 1, max: 300 });
  t.notThrows(() =>
    fc.assert(
      fc.property(
        counts,
        fc.integer({ min: 1, max: 4 }),
        fc.integer({ min: 1, max: 16 }),
        (callers, rounds, drivers) => {
          const parts = splitLoad(load(callers, callers * rounds), drivers);
          assert.equal(parts.length, drivers);
          const busy = parts.filter((part) => part !== undefined);
          assert.equal(
            busy.reduce((sum, part) => sum + part.callers, 0),
            callers,
          );
          assert.equal(
            busy.reduce((sum, part) => sum + part.turns, 0),
            callers * rounds,
          );
          assert.ok(busy.every((part) => part.callers >= 1 && part.turns >= part.callers));
        },
      ),
    ),
  );
});

test("samples of drivers that worked together add up, and took as long as the last of them", (t) => {
  const one: Sample = { ttftMs: [1], turnMs: [2], tpotMs: [0.1], tokens: 8, chunks: 7, elapsedMs: 50, driverCpuMs: 3 };
  t.deepEqual(mergeSamples([one, { ...one, elapsedMs: 80, ttftMs: [4] }]), {
    ttftMs: [1, 4],
    turnMs: [2, 2],
    tpotMs: [0.1, 0.1],
    tokens: 16,
    chunks: 14,
    elapsedMs: 80,
    driverCpuMs: 6,
  });
});
