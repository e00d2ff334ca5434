/**
 * The life of an agent and its replicas, on the real thing: states as they are shown, an engine that is stopped in mid-decode, a new
 * configuration under running streams, and the two ways to end.
 */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { type AgentUnderTest, atRest, poll, signedBy, startAgentUnderTest } from "../helpers/agent-process.ts";
import { makeDeepModel } from "../helpers/deep-model.ts";
import { expectedAnswer } from "../helpers/expected-answers.ts";
import { linuxTest } from "../helpers/linux-test.ts";

/** Blocks times this: about 10 to 30 ms a token. */
const DEPTH = 32;
const deep = makeDeepModel(DEPTH);
const directory = mkdtempSync(join(tmpdir(), "lockgate-life-"));
test.after.always(() => {
  deep.remove();
  rmSync(directory, { recursive: true, force: true });
});

/** An answer of so many tokens: the end tokens are banned. */
const long = (maxTokens: number) => ({
  model: "default",
  stream: true,
  max_tokens: maxTokens,
  messages: [{ role: "user", content: "Say hello." }],
  logit_bias: { 1021: -100, 1023: -100 },
});

/** A stream of which the first bytes were read. `rest` rejects where it is cut. */
const openStream = async (agent: AgentUnderTest, maxTokens: number) => {
  const response = await agent.chat(long(maxTokens));
  const reader = (response.body ?? new ReadableStream<Uint8Array>()).pipeThrough(new TextDecoderStream()).getReader();
  let text = (await reader.read()).value ?? "";
  return {
    rest: async (): Promise<string> => {
      for (let part = await reader.read(); !part.done; part = await reader.read()) text += part.value;
      return text;
    },
  };
};

interface ShownReplica {
  readonly state: string;
  readonly reason: string;
  readonly since: string;
  readonly next_heal: string | null;
  readonly pid: number;
}

const shown = async (agent: AgentUnderTest): Promise<ShownReplica> => {
  const headers = { authorization: `Bearer ${agent.localKey}` };
  const body = (await (await fetch(`${agent.url}/v1/status`, { headers })).json()) as { replicas: [ShownReplica] };
  return body.replicas[0];
};

/** An agent that a failing test does not leave behind. */
const start = async (t: ExecutionContext, words: readonly string[], env: NodeJS.ProcessEnv = {}) => {
  const agent = await startAgentUnderTest(words, undefined, env);
  t.teardown(() => agent.child.kill("SIGKILL"));
  return agent;
};

const lives = (pid: number): boolean => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

const loggedStates = (agent: AgentUnderTest): readonly string[] =>
  agent
    .stderrSoFar()
    .split("\n")
    .filter((line) => line.includes('"replica_state"'))
    .map((line) => (JSON.parse(line) as { state: string }).state);

const finished = (t: ExecutionContext, text: string): void => {
  t.true(text.endsWith("data: [DONE]\n\n"), text.slice(-200));
  t.false(text.includes('"error"'));
};

test.serial("a replica is busy while its only slot is taken, and heals when its process is killed", async (t) => {
  const startedAtMs = Date.now();
  const agent = await start(t, ["--model", deep.path, "--heal-cooldown", "1"]);
  const ready = await shown(agent);
  t.like(ready, { state: "ready", reason: "", next_heal: null });
  t.true(Date.parse(ready.since) >= startedAtMs && Date.parse(ready.since) <= Date.now());
  const running = await openStream(agent, 1000);
  t.is((await shown(agent)).state, "busy");
  process.kill(ready.pid, "SIGKILL");
  t.regex(await running.rest(), /"code":"overloaded"/);
  const healing = await poll(
    () => shown(agent),
    ({ state }) => state === "healing",
    "healing",
  );
  t.regex(healing.reason, /SIGKILL|output ended/);
  t.is(Date.parse(healing.next_heal ?? "") - Date.parse(healing.since), 1000);
  const healed = await poll(
    () => shown(agent),
    ({ state }) => state === "ready",
    "ready again",
  );
  t.like(healed, { reason: "", next_heal: null });
  t.not(healed.pid, ready.pid);
  t.is(await agent.stop(), 0);
  t.deepEqual(loggedStates(agent), [
    "starting",
    "ready",
    "poisoned",
    "healing",
    "starting",
    "ready",
    "draining",
    "dead",
  ]);
});

linuxTest(
  "an engine stopped by SIGSTOP in mid-decode is found, killed and healed; its stream ends in an error",
  "CPU times in /proc",
  async (t) => {
    const agent = await start(t, ["--model", deep.path, "--heal-cooldown", "0.05", "--stall-timeout", "0.5"]);
    const { pid } = await shown(agent);
    const running = await openStream(agent, 1000);
    process.kill(pid, "SIGSTOP");
    const text = await running.rest();
    t.regex(text, /data: \{"error":\{[^\n]*"code":"overloaded"[^\n]*\}\}\n\n$/);
    const healed = await poll(
      () => shown(agent),
      ({ state }) => state === "ready",
      "ready again",
    );
    t.not(healed.pid, pid);
    t.false(lives(pid));
    t.regex(agent.stderrSoFar(), /"poisoned".*no line and no CPU time for \d+ ms/);
    finished(t, await (await openStream(agent, 3)).rest());
    t.is(await agent.stop(), 0);
  },
);

linuxTest(
  "a turn whose engine was stopped before its first token moves to the other replica",
  "CPU times in /proc",
  async (t) => {
    const agent = await start(t, ["--replicas", "2", "--heal-cooldown", "0.05", "--stall-timeout", "0.5"]);
    const item = expectedAnswer("fact-001");
    process.kill(agent.pids.replicas[0] ?? 0, "SIGSTOP");
    const response = await agent.chat({ model: "default", messages: item.messages });
    const answer = (await response.json()) as { choices: [{ message: { content: string } }] };
    t.is(answer.choices[0].message.content, item.expected);
    t.deepEqual(
      agent.wire().map(({ replica }) => replica),
      [0, 1],
    );
    await agent.until(atRest, "rest");
    t.is(await agent.stop(), 0);
  },
);

test.serial("a slow engine that works is not taken for one that hangs", async (t) => {
  const agent = await start(t, ["--model", deep.path, "--stall-timeout", "0.2"]);
  const body = { model: "default", max_tokens: 1, messages: [{ role: "user", content: "word ".repeat(300) }] };
  t.is((await agent.chat(body)).status, 200);
  t.is((await agent.status()).replicas[0]?.heals, 0);
  t.is(await agent.stop(), 0);
  t.false(loggedStates(agent).includes("poisoned"));
});

/** The status of an answer that was read to its end. */
const statusOf = async (answer: Promise<Response>): Promise<number> => {
  const response = await answer;
  await response.text();
  return response.status;
};

const newKeys = () => ({
  localKey: randomBytes(24).toString("base64url"),
  signing: { keyId: "edge", secret: new Uint8Array(randomBytes(32)) },
});

test.serial(
  "SIGHUP changes keys, queue and log level under a running stream, names what it cannot change, and survives a broken file",
  async (t) => {
    const path = (name: string) => join(directory, name);
    const write = (keys: ReturnType<typeof newKeys>, options: string) => {
      writeFileSync(path("local.key"), keys.localKey);
      const secret = Buffer.from(keys.signing.secret).toString("base64url");
      writeFileSync(path("signing.json"), JSON.stringify({ [keys.signing.keyId]: secret }));
      writeFileSync(
        path("agent.toml"),
        `${options}\n[auth]\nlocal_key_file = "${path("local.key")}"\nsigning_keys_file = "${path("signing.json")}"\n`,
      );
    };
    const [before, after] = [newKeys(), newKeys()];
    write(before, "slots = 1");
    const agent = await start(t, ["--model", deep.path, "--config", path("agent.toml")], {
      LOCKGATE_LOCAL_KEY: "",
      LOCKGATE_SIGNING_KEYS: "",
    });
    const chat = (keys: typeof before, body: object) =>
      agent.chat(body, { headers: { authorization: `Bearer ${keys.localKey}`, "content-type": "application/json" } });
    const signed = async (keys: typeof before) => {
      const body = JSON.stringify({ ...long(1), stream: false });
      const headers: [string, string][] = [...(await signedBy({ url: agent.url, signing: keys.signing }, body))];
      return fetch(`${agent.url}/v1/chat/completions`, {
        method: "POST",
        headers: [...headers, ["content-type", "application/json"]],
        body,
      });
    };
    const hangUp = async (event: string) => {
      const seen = agent.stderrSoFar().split(`"${event}"`).length;
      agent.child.kill("SIGHUP");
      await poll(
        () => agent.stderrSoFar().split(`"${event}"`).length,
        (count) => count > seen,
        event,
      );
    };

    t.is(await statusOf(signed(before)), 200);
    const response = await chat(before, long(150));
    const running = response.text();
    write(after, "slots = 2\nqueue = 0");
    await hangUp("reloaded");
    t.is(await statusOf(chat(before, long(1))), 401);
    t.is(await statusOf(signed(before)), 401);
    t.is(await statusOf(chat(after, long(1))), 429, "the only slot is taken, and nobody may wait any more");
    finished(t, await running);
    t.is(await statusOf(chat(after, long(1))), 200);
    t.is(await statusOf(signed(after)), 200);
    t.regex(agent.stderrSoFar(), /"changed":\["maxWaitingTurns","signingKeys","localKey"\]/);
    t.regex(agent.stderrSoFar(), /"level":"warn".*"reload_needs_restart","kept":\["slots"\]/);

    writeFileSync(path("agent.toml"), "slots = = 1");
    await hangUp("reload_failed");
    t.is(await statusOf(chat(after, long(1))), 200);

    write(after, 'slots = 1\nlog_level = "error"');
    await hangUp("reloaded");
    t.is(await statusOf(chat(before, long(1))), 401);
    t.is(await agent.stop(), 0);
    const log = await agent.stderr;
    t.is(log.split('"request_refused"').length - 1, 2, "the third was below the level");
    for (const { localKey, signing } of [before, after]) {
      t.false(log.includes(localKey));
      t.false(log.includes(Buffer.from(signing.secret).toString("base64url")));
    }
  },
);

test.serial("field report 29: SIGTERM lets what runs and what waits finish, and refuses what comes", async (t) => {
  const agent = await start(t, ["--model", deep.path]);
  const running = await openStream(agent, 60);
  const waiting = agent.chat(long(5)).then((response) => response.text());
  await agent.until((status) => status.waiting === 1, "a turn that waits");
  agent.child.kill("SIGTERM");
  await poll(
    () => agent.stderrSoFar(),
    (log) => log.includes('"state":"draining"'),
    "draining",
  );
  await t.throwsAsync(agent.chat(long(1)));
  finished(t, await running.rest());
  finished(t, await waiting);
  t.is(await agent.exited, 0);
  t.false(lives(agent.pids.replicas[0] ?? 0));
});

test.serial("a second SIGTERM ends at once: the stream is cut, no process is left", async (t) => {
  const agent = await start(t, ["--model", deep.path, "--drain-timeout", "600"]);
  const running = await openStream(agent, 1900);
  agent.child.kill("SIGTERM");
  await poll(
    () => agent.stderrSoFar(),
    (log) => log.includes('"state":"draining"'),
    "draining",
  );
  const cut = t.throwsAsync(running.rest());
  agent.child.kill("SIGTERM");
  await cut;
  t.is(await agent.exited, 0);
  t.false(lives(agent.pids.replicas[0] ?? 0));
});

test.serial("connections that were opened ahead of need, with nothing sent, do not hold up the drain", async (t) => {
  const drainS = 60;
  const agent = await start(t, ["--drain-timeout", String(drainS)]);
  const closed: Promise<unknown>[] = [];
  for (let opened = 0; opened < 3; opened++) {
    const socket = connect(Number(new URL(agent.url).port), "127.0.0.1");
    await once(socket, "connect");
    // Closed or reset: it is gone either way.
    socket.on("error", () => {});
    closed.push(new Promise((resolve) => socket.once("close", resolve)));
  }
  const beforeMs = Date.now();
  t.is(await agent.stop(), 0);
  await Promise.all(closed);
  t.true(Date.now() - beforeMs < (drainS * 1000) / 2, "it was the drain's end that ended it");
});
