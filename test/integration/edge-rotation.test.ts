/** Signing keys of an agent change while requests run: the real edge, a scripted agent, and a real one that takes its keys anew at SIGHUP. */
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "ava";
import { poll, startAgentUnderTest } from "../helpers/agent-process.ts";
import { startEdgeUnderTest } from "../helpers/edge-worker.ts";
import { exchange } from "../helpers/edge-worker-client.ts";
import { expectedAnswer } from "../helpers/expected-answers.ts";
import { type AgentKeys, verifierOf } from "../helpers/rotating-verifier.ts";
import { startScriptedAgent } from "../helpers/scripted-agent.ts";

/** Clients that ask one request after the other. */
const CLIENTS = 4;
/** Requests that go through in each phase of a rotation. */
const REQUESTS_A_PHASE = 40;

const newSecret = () => new Uint8Array(randomBytes(32));
const textOf = (keys: AgentKeys): string =>
  JSON.stringify(Object.fromEntries([...keys].map(([id, secret]) => [id, Buffer.from(secret).toString("base64url")])));

/** Keeps CLIENTS requests under way through all phases; each phase begins when the one before has had its requests. */
const askThrough = async (ask: () => Promise<number>, phases: readonly (() => void | Promise<void>)[]) => {
  const statuses = new Map<number, number>();
  let done = 0;
  let over = false;
  const clients = Array.from({ length: CLIENTS }, async () => {
    while (!over) {
      const status = await ask();
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      done += 1;
    }
  });
  for (const begin of phases) {
    await begin();
    const from = done;
    await poll(
      () => done,
      (count) => count >= from + REQUESTS_A_PHASE,
      "the requests of a phase",
    );
  }
  over = true;
  await Promise.all(clients);
  return Object.fromEntries(statuses);
};

for (const [title, keyIds] of [
  ["the new key second", ["old", "new"]],
  ["the new key first", ["new", "old"]],
] as const) {
  test.serial(`a rotation drops no request: the edge has ${title}, the agent old, both, new`, async (t) => {
    const [old, fresh] = [newSecret(), newSecret()];
    const verifier = verifierOf([["old", old]]);
    const agent = await startScriptedAgent(verifier);
    const edge = await startEdgeUnderTest(0, {
      AGENTS: JSON.stringify([{ name: "a", url: agent.url, keyIds }]),
      AGENT_SIGNING_KEYS: textOf([
        ["old", old],
        ["new", fresh],
      ]),
      BREAKER_OPEN_MS: "300000",
    });
    try {
      const statuses = await askThrough(
        async () => (await exchange(edge)).status,
        [
          () => undefined,
          () =>
            verifier.setKeys([
              ["old", old],
              ["new", fresh],
            ]),
          () => verifier.setKeys([["new", fresh]]),
        ],
      );
      t.deepEqual(Object.keys(statuses), ["200"], JSON.stringify(statuses));
      // Every refusal was answered by the other key, and the edge keeps to the one that is taken.
      const refused = agent.refusals.length;
      t.true(agent.refusals.every((reason) => reason === "unknown_key"));
      t.true(refused <= 2 * CLIENTS, String(refused));
      for (let index = 0; index < 10; index += 1) t.is((await exchange(edge)).status, 200);
      t.is(agent.refusals.length, refused);
    } finally {
      await edge.stop();
      await agent.stop();
    }
  });
}

test.serial(
  "an agent that takes neither key is a fault of configuration: 502, told in the log, and no breaker opens",
  async (t) => {
    const verifier = verifierOf([["other", newSecret()]]);
    const agent = await startScriptedAgent(verifier);
    const [old, fresh] = [newSecret(), newSecret()];
    const edge = await startEdgeUnderTest(0, {
      AGENTS: JSON.stringify([{ name: "a", url: agent.url, keyIds: ["old", "new"] }]),
      AGENT_SIGNING_KEYS: textOf([
        ["old", old],
        ["new", fresh],
      ]),
    });
    try {
      for (let index = 0; index < 10; index += 1) t.is((await exchange(edge)).status, 502);
      t.true(edge.log.some((line) => line.includes("agent_refused_signature")));
      verifier.setKeys([["old", old]]);
      t.is((await exchange(edge)).status, 200);
    } finally {
      await edge.stop();
      await agent.stop();
    }
  },
);

test.serial("a real agent's keys are rotated by SIGHUP without a dropped request", async (t) => {
  const directory = mkdtempSync(join(tmpdir(), "lockgate-rotation-"));
  const [old, fresh] = [newSecret(), newSecret()];
  const keysFile = join(directory, "signing.json");
  const configFile = join(directory, "agent.toml");
  const write = (keys: AgentKeys) => writeFileSync(keysFile, textOf(keys));
  write([["old", old]]);
  writeFileSync(configFile, `[auth]\nsigning_keys_file = "${keysFile}"\n`);
  const agent = await startAgentUnderTest(["--slots", "4", "--config", configFile], undefined, {
    LOCKGATE_SIGNING_KEYS: "",
  });
  const edge = await startEdgeUnderTest(0, {
    AGENTS: JSON.stringify([{ name: "a", url: agent.url, keyIds: ["old", "new"] }]),
    AGENT_SIGNING_KEYS: textOf([
      ["old", old],
      ["new", fresh],
    ]),
  });
  try {
    const { messages } = expectedAnswer("fact-001");
    const body = JSON.stringify({ model: "default", messages, max_tokens: 4 });
    const reload = async (keys: AgentKeys) => {
      write(keys);
      const seen = agent.stderrSoFar().split('"reloaded"').length;
      agent.child.kill("SIGHUP");
      await poll(
        () => agent.stderrSoFar().split('"reloaded"').length,
        (count) => count > seen,
        "the reload",
      );
    };
    const statuses = await askThrough(
      async () => (await exchange(edge, { body })).status,
      [
        () => undefined,
        () =>
          reload([
            ["old", old],
            ["new", fresh],
          ]),
        () => reload([["new", fresh]]),
      ],
    );
    t.deepEqual(Object.keys(statuses), ["200"], JSON.stringify(statuses));
  } finally {
    await edge.stop();
    await agent.stop();
    rmSync(directory, { recursive: true, force: true });
  }
});
