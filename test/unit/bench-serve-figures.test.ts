import test from "ava";
import type { Sample } from "../../gpu-agent/src/bench/load.ts";
import { quantile, spreadOf } from "../../gpu-agent/src/bench/quantile.ts";
import { shortRow, streamRow } from "../../gpu-agent/src/bench/serve-figures.ts";
import { formatReport, type ServeReport } from "../../gpu-agent/src/bench/serve-report.ts";
import { formatFigures } from "../../gpu-agent/src/bench/table.ts";

const sample = (more: Partial<Sample>): Sample => ({
  ttftMs: [1],
  turnMs: [11],
  tpotMs: [0.1],
  tokens: 100,
  chunks: 90,
  elapsedMs: 1_000,
  driverCpuMs: 100,
  ...more,
});

test("a quantile is the nearest rank, of one value that value, of none not a number", (t) => {
  const values = [5, 1, 4, 2, 3];
  t.deepEqual(
    [0, 0.2, 0.21, 0.5, 0.99, 1].map((p) => quantile(values, p)),
    [1, 1, 2, 3, 5, 5],
  );
  t.is(quantile([7], 0.5), 7);
  t.is(quantile([], 0.5), Number.NaN);
  t.deepEqual(values, [5, 1, 4, 2, 3], "the values stay as they are");
});

test("a spread is the least, the middle and the greatest", (t) => {
  t.deepEqual(spreadOf([2.26, 9, 4.44], 1), { min: 2.3, median: 4.4, max: 9 });
});

test("what the agent adds is its own time less the bare decoder's, by token and to the first", (t) => {
  const row = streamRow({
    connections: 4,
    bare: [sample({ ttftMs: [1, 2, 3], tpotMs: [0.1, 0.2, 0.3] })],
    agent: [sample({ ttftMs: [2, 4, 9], tpotMs: [0.15, 0.25, 0.35] })],
    short: [],
  });
  t.deepEqual(row.tpotUs, { bare: 200, agent: 250, added: 50 });
  t.deepEqual(row.ttftMs, {
    bare: { p50: 2, p99: 3 },
    agent: { p50: 4, p99: 9 },
    added: { p50: 2, p99: 6 },
  });
});

test("the ratio is taken round by round, so a machine that slows down as a whole changes nothing", (t) => {
  const bare = [sample({ tokens: 1_000 }), sample({ tokens: 100 }), sample({ tokens: 500 })];
  const agent = [sample({ tokens: 900 }), sample({ tokens: 90 }), sample({ tokens: 450 })];
  const row = streamRow({ connections: 1, bare, agent, short: [] });
  t.deepEqual(row.ratio, { min: 0.9, median: 0.9, max: 0.9 });
  t.deepEqual(row.agentTokensPerS, { min: 90, median: 450, max: 900 });
});

test("chunks are counted apart from tokens, and the client's share of a core is told", (t) => {
  const row = streamRow({ connections: 1, bare: [sample({})], agent: [sample({ driverCpuMs: 250 })], short: [] });
  t.is(row.agentChunksPerS.median, 90);
  t.is(row.clientCores, 0.25);
});

test("short answers are requests a second, whatever their tokens", (t) => {
  const short = [sample({ turnMs: [1, 2, 3, 4], elapsedMs: 2_000 }), sample({ turnMs: [5, 6], elapsedMs: 500 })];
  t.deepEqual(shortRow({ connections: 2, bare: [], agent: [], short }), {
    connections: 2,
    requests: 6,
    requestsPerS: { min: 2, median: 2, max: 4 },
    requestMs: { p50: 3, p99: 6 },
  });
});

test("figures stand in columns, names on the left and numbers on the right", (t) => {
  t.is(
    formatFigures(
      ["what", "n"],
      [
        ["a", "1"],
        ["bb", "1000"],
      ],
    ),
    "what     n\na        1\nbb    1000",
  );
});

const report = (): ServeReport => {
  const samples = {
    connections: 16,
    bare: [sample({})],
    agent: [sample({ tokens: 95, tpotMs: [0.12] })],
    short: [sample({})],
  };
  return {
    machine: { cpu: "2 x a CPU", memoryGib: 8, system: "linux", node: "24.0.0", loadAverage: 1.5 },
    model: "atlas",
    settings: {
      replicas: 2,
      slots: 4,
      connections: [16],
      rounds: 1,
      tokens: 128,
      shortAnswerTokens: 8,
      promptTokens: 19,
    },
    streams: [streamRow(samples)],
    shortAnswers: [shortRow(samples)],
    memory: [{ process: "agent", beforeMib: 100, peakMib: null, afterMib: 120 }],
    tokens: { asked: 300, received: 300 },
    seconds: 7,
  };
};

test("the report names machine, load, model and settings, and has a row for each number of connections", (t) => {
  const text = formatReport(report());
  t.regex(text, /2 x a CPU.*load average 1\.50 before the run/);
  t.regex(text, /atlas, replicas 2, slots 4; prompt of 19 tokens/);
  t.regex(text, /^16 +1 +100 \(100\.\.100\) +95\.0 \(95\.0\.\.95\.0\) +0\.950 .* 100 +120 +\+20$/m);
  t.regex(text, /^agent +100 +- +120$/m);
  t.regex(text, /300 of 300 tokens came back in 7 s\.\n$/);
});

test("the report says that the client uses this machine too", (t) => {
  t.regex(formatReport(report()), /The client runs on this machine and took up to 0\.10 cores of it/);
});
