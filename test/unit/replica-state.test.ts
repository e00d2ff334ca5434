import assert from "node:assert/strict";
import test from "ava";
import fc from "fast-check";
import {
  HEALTHY_AGAIN_MS,
  healPauseMs,
  lossesInARow,
  MAX_HEAL_COOLDOWN_MS,
} from "../../gpu-agent/src/replicas/heal.ts";
import { cpuTimeMs } from "../../gpu-agent/src/replicas/process-cpu.ts";
import {
  type LifeEvent,
  type LifeState,
  moveOf,
  nextState,
  shownState,
} from "../../gpu-agent/src/replicas/replica-state.ts";
import { judgeStall, type StallSight } from "../../gpu-agent/src/replicas/stall-watchdog.ts";

const states: readonly LifeState[] = [
  "starting",
  "ready",
  "quarantined",
  "draining",
  "poisoned",
  "healing",
  "dead",
  "abandoned",
];
const events: readonly LifeEvent[] = ["spawn", "ready", "stuck", "lost", "cool", "outlived", "drain", "end"];

/** Every move that there is; all others are bugs. */
const allowed: Readonly<Record<LifeState, string>> = {
  starting: "ready>ready cool>healing outlived>abandoned drain>draining end>dead",
  ready: "stuck>quarantined lost>poisoned drain>draining",
  quarantined: "stuck>quarantined lost>poisoned drain>draining",
  draining: "ready>draining stuck>draining lost>draining outlived>abandoned drain>draining end>dead",
  poisoned: "cool>healing outlived>abandoned drain>draining end>dead",
  healing: "spawn>starting drain>draining end>dead",
  dead: "drain>dead end>dead",
  abandoned: "drain>abandoned end>abandoned",
};

for (const state of states) {
  test(`from ${state}: ${allowed[state]}; any other event throws`, (t) => {
    const found = events.flatMap((event) => {
      const next = moveOf(state, event);
      if (next === undefined) {
        t.throws(() => nextState(state, event), {
          message: `a replica that is ${state} cannot take the event ${event}`,
        });
        return [];
      }
      t.is(nextState(state, event), next);
      return [`${event}>${next}`];
    });
    t.is(found.join(" "), allowed[state]);
  });
}

test("nothing leads out of dead and abandoned, and every other state can come to both", (t) => {
  const reach = (from: LifeState): Set<LifeState> => {
    const seen = new Set<LifeState>([from]);
    for (const state of seen) {
      for (const event of events) {
        const next = moveOf(state, event);
        if (next !== undefined) seen.add(next);
      }
    }
    return seen;
  };
  for (const state of states) {
    const isLast = state === "dead" || state === "abandoned";
    t.deepEqual(
      [reach(state).has("dead"), reach(state).has("abandoned")],
      isLast ? [state === "dead", state === "abandoned"] : [true, true],
    );
  }
});

test("a ready replica without a free lease is shown as busy; no other state is", (t) => {
  for (const state of states) {
    t.is(shownState(state, 1), state);
    t.is(shownState(state, 0), state === "ready" ? "busy" : state);
  }
});

test("the pause before a start doubles with each loss in a row, up to ten minutes", (t) => {
  t.deepEqual(
    [1, 2, 3, 4, 5, 6, 1000].map((losses) => healPauseMs(losses, 60_000)),
    [60_000, 120_000, 240_000, 480_000, 600_000, 600_000, 600_000],
  );
  t.is(healPauseMs(1, 3_600_000), 3_600_000, "a longer first pause is kept");
  t.is(healPauseMs(9, 3_600_000), 3_600_000);
});

test("an engine that stayed well for long enough begins from the first pause", (t) => {
  t.is(lossesInARow(0, 0), 1);
  t.is(lossesInARow(4, HEALTHY_AGAIN_MS - 1), 5);
  t.is(lossesInARow(4, HEALTHY_AGAIN_MS), 1);
});

test("property: no pause is shorter than the one before, nor longer than the bound", (t) => {
  t.notThrows(() =>
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 10_000 }), fc.integer({ min: 1, max: 3_600_000 }), (losses, firstMs) => {
        const pause = healPauseMs(losses, firstMs);
        assert.ok(pause >= firstMs && pause <= Math.max(firstMs, MAX_HEAL_COOLDOWN_MS));
        assert.ok(healPauseMs(losses + 1, firstMs) >= pause);
      }),
    ),
  );
});

const STALL_MS = 1_000;
const sight = (over: Partial<StallSight>): StallSight => ({
  nowMs: 0,
  running: true,
  lastLineMs: 0,
  lastChunkMs: 0,
  cpuMs: 50,
  ...over,
});

test("an engine hangs when for the whole time a turn ran, no line came and no CPU time was used", (t) => {
  const { track } = judgeStall(undefined, sight({}), STALL_MS);
  t.false(judgeStall(track, sight({ nowMs: STALL_MS - 1 }), STALL_MS).stalled);
  t.true(judgeStall(track, sight({ nowMs: STALL_MS }), STALL_MS).stalled);
});

test("any sign of life begins the time anew", (t) => {
  const { track } = judgeStall(undefined, sight({}), STALL_MS);
  for (const sign of [{ cpuMs: 60 }, { lastLineMs: 900 }, { running: false }, { cpuMs: undefined }]) {
    const judged = judgeStall(track, sight({ nowMs: STALL_MS, ...sign }), STALL_MS);
    t.false(judged.stalled, JSON.stringify(sign));
    t.is(judged.track.sinceMs, STALL_MS);
  }
});

test("where CPU time cannot be read nothing is ever taken for a hang", (t) => {
  const { track } = judgeStall(undefined, sight({ cpuMs: undefined }), STALL_MS);
  t.false(judgeStall(track, sight({ nowMs: 100 * STALL_MS, cpuMs: undefined }), STALL_MS).stalled);
});

test("a prefill whose chunks take long has three times the last one's time", (t) => {
  const { track } = judgeStall(undefined, sight({ lastChunkMs: 2_000 }), STALL_MS);
  t.false(judgeStall(track, sight({ nowMs: 5_999, lastChunkMs: 2_000 }), STALL_MS).stalled);
  t.true(judgeStall(track, sight({ nowMs: 6_000, lastChunkMs: 2_000 }), STALL_MS).stalled);
});

const stat = (pid: number, name: string, userTicks: number, systemTicks: number): string =>
  `${pid} (${name}) S 1 1 1 0 -1 4194304 1 2 3 4 ${userTicks} ${systemTicks} 9 9 20 0 1 0 1 1 1\n`;

test("the CPU time of an engine is that of all its processes, whatever they are called", (t) => {
  const files: Record<string, string> = {
    "/proc/10/stat": stat(10, "sh -c (x) R 1", 1, 2),
    "/proc/10/task/10/children": "11 12 ",
    "/proc/11/stat": stat(11, "python3", 30, 4),
    "/proc/11/task/11/children": "",
    "/proc/11/task/15/children": "13 ",
    "/proc/12/stat": stat(12, "a", 0, 0),
    "/proc/12/task/12/children": "",
    "/proc/13/stat": stat(13, "b", 500, 0),
    "/proc/13/task/13/children": "",
  };
  const folders: Record<string, string[]> = {
    "/proc/10/task": ["10"],
    "/proc/11/task": ["11", "15"],
    "/proc/12/task": ["12"],
    "/proc/13/task": ["13"],
  };
  const read = (of: Record<string, string>) => (path: string) => {
    const text = of[path];
    if (text === undefined) throw new Error("ENOENT");
    return text;
  };
  const list = (path: string) => folders[path] ?? [];
  t.is(cpuTimeMs(10, read(files), list), 5_370);
  const { "/proc/13/stat": _, ...without } = files;
  t.is(cpuTimeMs(10, read(without), list), undefined, "one that cannot be read leaves all in doubt");
});
