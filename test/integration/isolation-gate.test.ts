/**
 * The isolation gate on the real model, through the real edge: every caller gets its own answer and its own figures, whatever the others
 * do. Then the same gate on the faulty subjects, where it must find what they are known for.
 */
import { fileURLToPath } from "node:url";
import test, { type ExecutionContext } from "ava";
import { atRest, startAgentUnderTest } from "../helpers/agent-process.ts";
import { startEdgeBefore } from "../helpers/edge-before-agent.ts";
import { type GatePlan, type GateReport, judgeGate, runGate } from "../helpers/isolation-gate.ts";
import { loadModelText } from "../helpers/model-text.ts";
import { pickSeed } from "../helpers/seeded-random.ts";

const faultyAgent = fileURLToPath(new URL("../helpers/faulty-agent.ts", import.meta.url));
const seed = pickSeed();

let textOf: (ids: readonly number[]) => string;
test.before(async () => {
  textOf = await loadModelText();
});

/** Starts agent and edge, runs the plan through the edge, and judges it when all is at rest. */
const runThroughEdge = async (
  t: ExecutionContext,
  slots: number,
  plan: GatePlan,
  killReplicas = false,
): Promise<GateReport> => {
  const agent = await startAgentUnderTest([
    ...["--replicas", "2", "--slots", String(slots), "--heal-cooldown", "1"],
    // A caller that cut off while it waited asks again before its old turn has left the queue: more turns may wait than there are callers.
    ...["--queue", String(4 * plan.callers)],
  ]);
  const edge = await startEdgeBefore(agent);
  let done: { readonly replies: Awaited<ReturnType<typeof runGate>>; readonly wire: ReturnType<typeof agent.wire> };
  try {
    const killOne = () => {
      void agent.status().then(({ replicas }) => {
        const alive = replicas.filter(({ state, pid }) => state === "ready" && pid !== null);
        const victim = alive[alive.length - 1];
        if (alive.length > 1 && victim?.pid) process.kill(victim.pid, "SIGKILL");
      });
    };
    const at = killReplicas
      ? new Map(Array.from({ length: 5 }, (_, kill) => [Math.floor(((kill + 1) * plan.turns) / 6), killOne]))
      : new Map();
    const replies = await runGate(edge, { ...plan, at });
    await agent.until(atRest, "rest after the gate");
    done = { replies, wire: agent.wire() };
  } finally {
    await edge.stop();
    t.is(await agent.stop(), 0);
  }
  // The log is whole only now: a turn is logged after its answer.
  const report = judgeGate(plan.seed, done.replies, done.wire, textOf, await agent.stderr);
  t.log(JSON.stringify({ slots, callers: plan.callers, killReplicas, ...report }));
  return report;
};

const assertClean = (t: ExecutionContext, report: GateReport): void => {
  const { emptyReplies, wrongAnswers, foreignIdentifiers, mixedStatistics, foreignRequestIds, examples } = report;
  t.deepEqual(
    { emptyReplies, wrongAnswers, foreignIdentifiers, mixedStatistics, foreignRequestIds },
    { emptyReplies: 0, wrongAnswers: 0, foreignIdentifiers: 0, mixedStatistics: 0, foreignRequestIds: 0 },
    examples.join("\n"),
  );
};

for (const slots of [1, 4]) {
  for (const [callers, title] of [
    [4, `4 callers, ${slots} slots`],
    [16, `16 callers, ${slots} slots`],
    [64, `field report 10: 64 callers, ${slots} slots`],
  ] as const) {
    test.serial(`${title}: every answer, every figure and every request id is the caller's own`, async (t) => {
      t.timeout(300_000);
      const report = await runThroughEdge(t, slots, {
        seed: seed + callers + slots,
        callers,
        turns: 400,
        disconnects: 0.15,
        slowReaders: 0.05,
      });
      assertClean(t, report);
      t.is(report.failed, 0, report.failures.join());
    });
  }
  test.serial(
    `replicas are killed in between, ${slots} slots: a typed failure or the right answer, never another's`,
    async (t) => {
      t.timeout(300_000);
      const report = await runThroughEdge(
        t,
        slots,
        { seed: seed + 1000 + slots, callers: 16, turns: 400, disconnects: 0.1, slowReaders: 0.05 },
        true,
      );
      assertClean(t, report);
      t.true(report.complete > 200, `complete ${report.complete}`);
    },
  );
}

/** Rounds of the gate on a faulty subject until it has found what it must; a tenth of the releases is armed, so one round may be lucky. */
const MAX_ROUNDS = 5;

/** The gate on a faulty subject, straight at the agent, until `found`. */
const runFaulty = async (
  t: ExecutionContext,
  subject: string,
  found: (report: GateReport) => boolean,
): Promise<boolean> => {
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const roundSeed = seed + round;
    const agent = await startAgentUnderTest(["--replicas", "2", "--heal-cooldown", "1", "--log-level", "error"], {
      script: faultyAgent,
      words: [subject, String(roundSeed), "serve"],
    });
    try {
      const target = { url: agent.url, key: agent.localKey };
      const plan = { seed: roundSeed, callers: 16, turns: 300, disconnects: 0.15, slowReaders: 0 };
      const report = judgeGate(roundSeed, await runGate(target, plan), agent.wire(), textOf);
      t.log(JSON.stringify({ subject, ...report }));
      if (found(report)) return true;
    } finally {
      agent.child.kill("SIGKILL");
      await agent.exited;
    }
  }
  return false;
};

test.serial("the gate bites: close-only mixes statistics", async (t) => {
  t.timeout(300_000);
  t.true(await runFaulty(t, "close-only", ({ mixedStatistics }) => mixedStatistics > 0));
});

test.serial("the gate bites: original mixes statistics and gives empty replies", async (t) => {
  t.timeout(300_000);
  t.true(
    await runFaulty(t, "original", ({ mixedStatistics, emptyReplies }) => mixedStatistics > 0 && emptyReplies > 0),
  );
});
