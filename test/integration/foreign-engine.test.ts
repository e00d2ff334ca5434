/**
 * `engine.command`: the real agent in front of an engine of the base grammar that is written in Python, with its prompts and texts from the
 * built-in model's vocabulary. The same lock, drain, statistics and healing as with our own.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import test, { type ExecutionContext } from "ava";
import { type AgentUnderTest, agentEntry, atRest, poll, startAgentUnderTest } from "../helpers/agent-process.ts";
import { type EngineLine, readEngineLines, shapeOf } from "../helpers/engine-lines.ts";
import { startScript } from "../helpers/processes.ts";

const engineFile = fileURLToPath(new URL("../helpers/foreign_engine.py", import.meta.url));
const directory = mkdtempSync(join(tmpdir(), "lockgate-foreign-"));
const wireDirectory = join(directory, "wire");
const configFile = join(directory, "agent.toml");
writeFileSync(
  configFile,
  `replicas = 2
devices = ["CUDA4", "CUDA6"]
heal_cooldown = 0.05
stall_timeout = 0.5
[engine]
command = ["python3", ${JSON.stringify(engineFile)}, ${JSON.stringify(directory)}, "replica={replica}", "devices={devices}"]
`,
);

// What the engine does, by the seed of the request; see its file.
const seeds = { refuse: 1, endless: 2, deaf: 3, garbage: 4, hangOnce: 5 };

let agent: AgentUnderTest;
test.before(async () => {
  agent = await startAgentUnderTest(["--config", configFile, "--wire-log", wireDirectory]);
});
test.after.always(async (t) => {
  t.is(await agent?.stop(), 0);
  rmSync(directory, { recursive: true, force: true });
});
test.afterEach.always(async () => {
  await agent.until((status) => atRest(status) && status.replicas.every(({ state }) => state === "ready"), "rest");
});

const lines = (): readonly EngineLine[] => readEngineLines(wireDirectory);
const bodyOf = (extra: object = {}, content = "alpha beta") => ({
  model: "default",
  messages: [{ role: "user", content }],
  ...extra,
});

interface Answer {
  readonly choices: readonly [{ readonly message: { readonly content: string }; readonly finish_reason: string }];
  readonly usage: { readonly prompt_tokens: number; readonly completion_tokens: number };
  readonly timings: { readonly predicted_n: number; readonly prompt_ms: number; readonly predicted_ms: number } | null;
}

const ask = async (extra: object = {}, content?: string): Promise<Answer> => {
  const response = await agent.chat(bodyOf(extra, content));
  if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
  return (await response.json()) as Answer;
};

/** Both replicas serve: what one of them left behind would show. */
const bothServe = async (t: ExecutionContext): Promise<void> => {
  await agent.until(({ replicas }) => replicas.every(({ state }) => state === "ready"), "two replicas that are ready");
  const answers = await Promise.all(["first one", "second one"].map((content) => ask({}, content)));
  t.deepEqual(
    answers.map(({ choices }) => choices[0].message.content),
    ["user\nfirst one", "user\nsecond one"],
  );
};

test.serial("its words are filled in per replica, it sees its own GPU alone, and no key of the agent", (t) => {
  const told = lines().filter(({ text }) => text.startsWith("INFO"));
  for (const [replica, gpu] of [4, 6].entries()) {
    const own = told.filter((line) => line.replica === replica).map(({ text }) => text);
    t.regex(own[0] ?? "", new RegExp(`replica=${replica} devices=CUDA0 cuda=${gpu}$`));
    t.is(own[1], "INFO keys=0");
  }
});

test.serial("a turn's text, counts and times are the engine's own", async (t) => {
  const answer = await ask();
  t.is(answer.choices[0].message.content, "user\nalpha beta");
  t.is(answer.choices[0].finish_reason, "stop");
  t.is(answer.timings?.predicted_n, answer.usage.completion_tokens);
  t.is(answer.timings?.prompt_ms, 1.5);
  t.is(answer.timings?.predicted_ms, 2.5);
  const cut = await ask({ max_tokens: 2, seed: seeds.endless });
  t.is(cut.choices[0].finish_reason, "length");
  t.is(cut.usage.completion_tokens, 2);
});

test.serial(
  "a turn that a stop string ends is drained to its DONE before the next GEN, and STOP is written once",
  async (t) => {
    const before = lines().length;
    const turns = await Promise.all(
      Array.from({ length: 6 }, () => ask({ seed: seeds.endless, stop: "beta", max_tokens: 500 })),
    );
    for (const { choices, usage, timings } of turns) {
      t.is(choices[0].message.content, "user\nalpha ");
      t.is(choices[0].finish_reason, "stop");
      t.true((timings?.predicted_n ?? 0) >= usage.completion_tokens);
    }
    t.is(lines().filter(({ text }) => text.startsWith("GEN")).length - countGens(before), 6);
    for (const replica of [0, 1]) {
      const own = shapeOf(lines().filter((line) => line.replica === replica)).join("  ");
      t.regex(`${own}  `, /^< INFO {2}< READY {2}(> GEN {2}< PP {2}< T {2}(> STOP {2}(< T {2})?)?< DONE {2})*$/);
    }
  },
);

/** Process of the last GEN. */
const lastPid = (): number => lines().findLast(({ text }) => text.startsWith("GEN"))?.pid ?? 0;

/** GENs among the first lines. */
const countGens = (first: number): number =>
  lines()
    .slice(0, first)
    .filter(({ text }) => text.startsWith("GEN")).length;

test.serial("a client that goes away stops it", async (t) => {
  const abort = new AbortController();
  const body = JSON.stringify(bodyOf({ stream: true, seed: seeds.endless }));
  const response = await agent.chat({}, { body, signal: abort.signal });
  await response.body?.getReader().read();
  abort.abort();
  await agent.until(atRest, "rest");
  const own = lines().filter(({ pid }) => pid === lastPid());
  t.regex(shapeOf(own).join("  "), /> STOP {2}(< T {2})?< DONE$/);
  t.regex(own.at(-1)?.text ?? "", / cancel /);
});

test.serial("its ERR is an error of the request, and the engine stays", async (t) => {
  const response = await agent.chat(bodyOf({ seed: seeds.refuse }));
  t.is(response.status, 500);
  t.is(((await response.json()) as { error: { code: string } }).error.code, "engine_error");
  t.deepEqual(
    (await agent.status()).replicas.map(({ heals }) => heals),
    [0, 0],
  );
  await bothServe(t);
});

test.serial("each historic form of DONE is read", async (t) => {
  for (const seed of [10, 11, 12, 13, 14]) {
    const { choices, usage, timings } = await ask({ seed });
    t.is(choices[0].message.content, "user\nalpha beta", String(seed));
    t.is(timings?.predicted_n, usage.completion_tokens, String(seed));
  }
});

/** A stream that has begun, its events so far, and all of it. */
const stream = async (extra: object) => {
  const response = await agent.chat(bodyOf({ stream: true, ...extra }));
  const reader = (response.body ?? new ReadableStream<Uint8Array>()).pipeThrough(new TextDecoderStream()).getReader();
  const first = (await reader.read()).value ?? "";
  return {
    rest: async (): Promise<string> => {
      let text = first;
      for (let part = await reader.read(); !part.done; part = await reader.read()) text += part.value;
      return text;
    },
  };
};

const endsInError = (t: ExecutionContext, text: string): void => {
  t.regex(text, /data: \{"error":\{[^\n]*"code":"overloaded"[^\n]*\}\}\n\n$/);
  t.false(text.includes("[DONE]"));
};

const lossesSince = async (before: number): Promise<readonly string[]> => {
  await agent.until(({ replicas }) => replicas.reduce((sum, { heals }) => sum + heals, 0) > before, "a heal");
  return agent
    .stderrSoFar()
    .split("\n")
    .filter((line) => line.includes('"poisoned"'))
    .map((line) => (JSON.parse(line) as { reason: string }).reason);
};

const healsSoFar = async (): Promise<number> =>
  (await agent.status()).replicas.reduce((sum, { heals }) => sum + heals, 0);

test.serial("a line that does not parse poisons it: the stream ends in an error, the replica heals", async (t) => {
  const before = await healsSoFar();
  endsInError(t, await (await stream({ seed: seeds.garbage })).rest());
  t.regex((await lossesSince(before)).at(-1) ?? "", /broke the protocol: T without a token id: T four/);
  await bothServe(t);
});

test.serial("kill -9 in the middle of a stream ends it in an error, and the replica heals", async (t) => {
  const before = await healsSoFar();
  const running = await stream({ seed: seeds.endless });
  process.kill(lastPid(), "SIGKILL");
  endsInError(t, await running.rest());
  t.regex((await lossesSince(before)).at(-1) ?? "", /output ended|SIGKILL/);
  await bothServe(t);
});

test.serial("an engine that hangs before its first token is found by its idleness, and the turn moves", async (t) => {
  const before = await healsSoFar();
  const answer = await ask({ seed: seeds.hangOnce });
  t.is(answer.choices[0].message.content, "user\nalpha beta");
  t.regex((await lossesSince(before)).at(-1) ?? "", /no line and no CPU time for \d+ ms/);
  await bothServe(t);
});

test.serial("an engine that ignores STOP is killed after the drain allowance; the answer was whole", async (t) => {
  const before = await healsSoFar();
  const answer = await ask({ seed: seeds.deaf, stop: "beta" });
  t.is(answer.choices[0].message.content, "user\nalpha ");
  t.is(answer.timings, null, "no DONE was read");
  t.regex((await lossesSince(before)).at(-1) ?? "", /no DONE within the drain allowance/);
  await bothServe(t);
});

test.serial("what a shell in front of the engine started is killed with it", async (t) => {
  const words = ["sh", "-c", 'python3 "$@"; exit 0', "sh", engineFile, directory, "behind a shell"];
  const wire = join(directory, "shell");
  const shelled = await startAgentUnderTest(["--engine-command", JSON.stringify(words), "--wire-log", wire]);
  const enginePid = () => Number(/ pid=(\d+) /.exec(readEngineLines(wire)[0]?.text ?? "")?.[1]);
  const pid = enginePid();
  t.not(pid, shelled.pids.replicas[0]);
  t.is((await shelled.chat(bodyOf({ seed: seeds.garbage }))).status, 503);
  await poll(
    () => lives(pid),
    (alive) => !alive,
    "the end of the process behind the shell",
  );
  t.is(await shelled.stop(), 0);
});

const lives = (pid: number): boolean => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

test.serial("a command that is not there: exit 69 and one line that names it, at once", async (t) => {
  const words = ["serve", "--log-level", "error", "--port", "0", "--engine-command", '["no-such-engine"]'];
  const started = startScript(agentEntry, words, { ...process.env, LOCKGATE_LOCAL_KEY: "a-local-key-of-a-test" });
  t.is(await started.exited, 69);
  t.is(await started.stderr, "gpu-agent: replica 0 did not start: cannot start no-such-engine: ENOENT\n");
});
