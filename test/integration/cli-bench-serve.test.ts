/** `gpu-agent bench serve` as an operator runs it: real decoder, real agent, real client. Nothing here judges how fast they are. */
import { copyFileSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import test from "ava";
import { z } from "zod";
import { runAgentCommand } from "../helpers/agent-command.ts";
import { agentEntry, poll } from "../helpers/agent-process.ts";
import { openTerminal } from "../helpers/terminal.ts";

const model = fileURLToPath(new URL("../../gpu-agent/models/tiny-atlas-3m-q8_0.gguf", import.meta.url));
const directory = mkdtempSync(join(tmpdir(), "lockgate-bench-test-"));
test.after.always(() => rmSync(directory, { recursive: true, force: true }));

const spread = z.strictObject({ min: z.number(), median: z.number(), max: z.number() });
const percentiles = z.strictObject({ p50: z.number(), p99: z.number() });
const reportSchema = z.strictObject({
  machine: z.strictObject({
    cpu: z.string(),
    memoryGib: z.number(),
    system: z.string(),
    node: z.string(),
    loadAverage: z.number(),
  }),
  model: z.string(),
  settings: z.strictObject({
    replicas: z.number(),
    slots: z.number(),
    connections: z.array(z.number()),
    rounds: z.number(),
    tokens: z.number(),
    shortAnswerTokens: z.number(),
    promptTokens: z.number(),
  }),
  streams: z.array(
    z.strictObject({
      connections: z.number(),
      turns: z.number(),
      bareTokensPerS: spread,
      agentTokensPerS: spread,
      agentChunksPerS: spread,
      ratio: spread,
      tpotUs: z.strictObject({ bare: z.number(), agent: z.number(), added: z.number() }),
      ttftMs: z.strictObject({ bare: percentiles, agent: percentiles, added: percentiles }),
      clientCores: z.number(),
    }),
  ),
  shortAnswers: z.array(
    z.strictObject({ connections: z.number(), requests: z.number(), requestsPerS: spread, requestMs: percentiles }),
  ),
  memory: z.array(
    z.strictObject({
      process: z.string(),
      beforeMib: z.number().nullable(),
      peakMib: z.number().nullable(),
      afterMib: z.number().nullable(),
    }),
  ),
  tokens: z.strictObject({ asked: z.number(), received: z.number() }),
  seconds: z.number(),
});

/** Running processes whose command line names the file. */
const processesOf = (file: string): string[] =>
  readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        const words = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
        return words.includes(file) ? [words.join(" ")] : [];
      } catch {
        return []; // it ended while it was looked at
      }
    });

test.serial("a quick run measures what was asked for, and every token that was asked for came", async (t) => {
  const json = join(directory, "figures.json");
  const { code, stdout, stderr } = await runAgentCommand(
    [
      "bench",
      "serve",
      "--quick",
      "--replicas",
      "2",
      "--slots",
      "2",
      "--connections",
      "1,5",
      "--tokens",
      "16",
      "--json",
      json,
    ],
    // What an operator has set for a service of theirs is not the benchmark's.
    { env: { LOCKGATE_LOCAL_KEY: "too short", LOCKGATE_SPOOL: "/nowhere", LOCKGATE_QUEUE: "0" } },
  );
  t.is(code, 0, stderr);
  const report = reportSchema.parse(JSON.parse(readFileSync(json, "utf8")));
  t.like(report.settings, { replicas: 2, slots: 2, connections: [1, 5], rounds: 1, tokens: 16, shortAnswerTokens: 8 });
  t.deepEqual(
    report.streams.map(({ connections }) => connections),
    [1, 5],
  );
  for (const { connections, turns } of report.streams) t.true(turns >= connections && turns % connections === 0);
  for (const { connections, requests } of report.shortAnswers) t.is(requests % connections, 0);
  const streamed = report.streams.reduce((turns, row) => turns + 2 * row.turns, 0);
  const short = report.shortAnswers.reduce((requests, row) => requests + row.requests, 0);
  t.is(report.tokens.asked, streamed * 16 + short * 8);
  t.is(report.tokens.received, report.tokens.asked);
  t.deepEqual(
    report.memory.map((row) => row.process),
    ["agent", "replica 0", "replica 1"],
  );
  for (const { beforeMib, peakMib, afterMib } of report.memory) {
    t.true((peakMib ?? 0) >= Math.max(beforeMib ?? 0, afterMib ?? 0));
  }
  t.regex(stdout, /^5 +\d+ /m);
  t.regex(stdout, new RegExp(`${report.tokens.asked} of ${report.tokens.asked} tokens came back`));
});

test.serial("Ctrl-C ends the run, with 130, and every process that it started", async (t) => {
  const own = join(directory, "interrupted.gguf");
  copyFileSync(model, own);
  const words = [
    "bench",
    "serve",
    "--quick",
    "--model",
    own,
    "--connections",
    "2",
    "--rounds",
    "1000",
    "--tokens",
    "16",
  ];
  const terminal = openTerminal(agentEntry, words, {});
  await terminal.until((drawn) => drawn.includes("round 2 of 1000"));
  t.true(processesOf(own).length >= 3, "bare decoder, agent, replica");
  terminal.press("\u0003");
  t.is(await terminal.exited, 130, terminal.drawn());
  // A replica's host ends with its input, a moment after the agent.
  t.deepEqual(
    await poll(
      () => processesOf(own),
      (left) => left.length === 0,
      "the end of all processes",
    ),
    [],
  );
});

test.serial("what cannot be measured is said in one line before anything starts", async (t) => {
  for (const [words, exitCode, message] of [
    [["--model", join(directory, "none.gguf")], 66, /none\.gguf/],
    [["--model", fileURLToPath(import.meta.url)], 65, /cli-bench-serve/],
    [["--tokens", "3000"], 64, /^gpu-agent: --tokens 3000 and a prompt of \d+ do not fit a slot of 2048 tokens$/m],
    [["--connections", "257"], 64, /^gpu-agent: --connections is \[257\]; it must be /m],
    [["--json", join(directory, "none", "figures.json")], 71, /figures\.json cannot be written \(ENOENT\)/],
  ] as const) {
    const { code, stdout, stderr } = await runAgentCommand(["bench", "serve", ...words]);
    t.is(code, exitCode, stderr);
    t.regex(stderr, message);
    t.is(stderr.trim().split("\n").length, 1, stderr);
    t.is(stdout, "");
  }
  t.false(existsSync(join(directory, "none")));
});
