/**
 * kill -9 of the agent under load, again and again on one spool: every turn whose end a client saw is booked exactly once, in order. The
 * moments are random (the seed is printed): after so many chunks of answers, over all clients; every second time at the next end that
 * a client sees, when its record has just been written.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import type { AgentUnderTest } from "../helpers/agent-process.ts";
import { expectedAnswers } from "../helpers/expected-answers.ts";
import { startScriptedEdge } from "../helpers/scripted-edge.ts";
import { pickSeed, seededRandom } from "../helpers/seeded-random.ts";

const ROUNDS = 4;
const KILLS_PER_ROUND = 5;
const CLIENTS = 4;
/** A kill comes after 1 to so many chunks. */
const MAX_CHUNKS = 400;
/** Of so many batches one is booked with its answer lost, and comes again. */
const ANSWER_LOST_EVERY = 4;

/** Turns that ended before a client's eyes, in its order, with the tokens they should have. */
interface SeenTurn {
  readonly client: number;
  readonly turnId: string;
  readonly completionTokens: number;
}

/** Whether a client that has read this has the whole answer. */
const isWhole = (text: string): boolean => {
  if (text.startsWith("data: ")) return text.endsWith("data: [DONE]\n\n");
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
};

/** Asks one question after the other until the agent is killed; `onText` gets each answer as it grows. */
const ask = async (
  agent: AgentUnderTest,
  random: () => number,
  onText: (text: string) => void,
  onSeen: (turn: Omit<SeenTurn, "client">) => void,
): Promise<void> => {
  for (;;) {
    const item = expectedAnswers[Math.floor(random() * expectedAnswers.length)];
    if (item === undefined) return;
    const { messages, max_tokens, expected_tokens: completionTokens } = item;
    let turnId = "";
    let text = "";
    let failure: unknown;
    try {
      const response = await agent.chat({ model: "default", stream: random() < 0.5, messages, max_tokens });
      if (response.status !== 200 || response.body === null) throw new Error(`status ${response.status}`);
      turnId = `${response.headers.get("x-request-id")}.1`;
      for await (const chunk of response.body) {
        text += Buffer.from(chunk).toString();
        onText(text);
      }
    } catch (error) {
      failure = error;
    }
    // Also where the connection broke behind the last byte of the answer: the client has it.
    if (isWhole(text)) onSeen({ turnId, completionTokens });
    if (failure === undefined) continue;
    if (agent.child.killed) return;
    throw failure;
  }
};

const killRound = async (t: ExecutionContext, random: () => number): Promise<void> => {
  const spool = mkdtempSync(join(tmpdir(), "lockgate-spool-"));
  const edge = await startScriptedEdge();
  t.teardown(async () => {
    await edge.stop();
    rmSync(spool, { recursive: true, force: true });
  });
  edge.onUsage = () => (edge.batches.length % ANSWER_LOST_EVERY === 1 ? "answer lost" : 204);

  const seen: SeenTurn[] = [];
  for (let kill = 0; kill < KILLS_PER_ROUND; kill++) {
    const agent = await edge.startAgent(["--spool", spool, "--slots", "2"]);
    const chunksUntilKill = 1 + Math.floor(random() * MAX_CHUNKS);
    let chunks = 0;
    const onText = (text: string) => {
      chunks++;
      const isTime = kill % 2 === 0 ? chunks === chunksUntilKill : chunks >= chunksUntilKill && isWhole(text);
      if (isTime) agent.child.kill("SIGKILL");
    };
    const clients = Array.from({ length: CLIENTS }, (_, client) =>
      ask(agent, random, onText, (turn) => void seen.push({ client, ...turn })),
    );
    await Promise.all(clients);
    await agent.exited;
    t.is(agent.child.signalCode, "SIGKILL");
    await agent.stop();
  }
  const last = await edge.startAgent(["--spool", spool, "--heartbeat-interval", "0.05"]);
  const heartbeatsBefore = edge.heartbeats.length;
  await edge.until(() => edge.heartbeats.slice(heartbeatsBefore).at(-1)?.usage_backlog === 0, "an empty spool");
  t.is(await last.stop(), 0);

  const places = new Map(edge.booked.map(({ turn_id }, place) => [turn_id, place]));
  t.is(places.size, edge.booked.length);
  const lost = seen.filter(({ turnId }) => !places.has(turnId));
  t.deepEqual(lost, []);
  for (const { turnId, completionTokens } of seen) {
    const record = edge.booked[places.get(turnId) ?? -1];
    t.like(record, { outcome: "finished", completion_tokens: completionTokens }, turnId);
  }
  for (let client = 0; client < CLIENTS; client++) {
    const own = seen.filter((turn) => turn.client === client).map(({ turnId }) => places.get(turnId) ?? -1);
    const inOrder = own.toSorted((a, b) => a - b);
    t.deepEqual(own, inOrder, `client ${client}`);
  }
  const originals = new Map(edge.booked.map((record) => [record.turn_id, record]));
  for (const record of edge.again) t.deepEqual(record, originals.get(record.turn_id));
  t.true(edge.again.length > 0);
  t.true(seen.length > 0);
  t.log(`${seen.length} turns seen finished, ${edge.booked.length} booked, ${edge.again.length} sent again`);
};

for (let round = 1; round <= ROUNDS; round++) {
  test.serial(
    `kills at random moments lose no turn that a client saw finished, and book none twice (round ${round})`,
    async (t) => {
      const seed = pickSeed() + round;
      t.log(`LOCKGATE_SEED=${seed - round}`);
      await killRound(t, seededRandom(seed));
    },
  );
}
