/**
 * Field reports about slots that leak and replicas that are given up for no reason: the real edge, the real agent with one slot, and an
 * engine that does what each request says. The stall limit is 0.3 s for the default 30 s, so that a hang is a short wait.
 */
import test, { type ExecutionContext } from "ava";
import { atRest } from "../helpers/agent-process.ts";
import { open } from "../helpers/edge-worker-client.ts";
import { type EnginePace, seedOf } from "../helpers/engine-pace.ts";
import { type PacedAgent, pacedBody, startPacedAgent } from "../helpers/paced-agent.ts";
import { parseScrape } from "../helpers/prometheus.ts";

const STALL_S = 0.3;
let paced: PacedAgent;
test.before(async () => {
  paced = await startPacedAgent(["--replicas", "1", "--stall-timeout", String(STALL_S), "--heal-cooldown", "0.05"]);
});
test.after.always(async (t) => {
  t.is(await paced?.stop(), 0);
});

/** Seeds that no other request has: turns are found by them. */
let seeds = 0;
const freshSeed = (kind: EnginePace["kind"], ms: number): number => seedOf(kind, ms + seeds++);

const exchange = async (body: object, headers: Readonly<Record<string, string>> = {}) => {
  const response = await paced.send(body, headers).response;
  const { bytes, clean } = await response.rest();
  return { status: response.status, text: bytes.toString(), clean };
};

/** The one slot is free, every gauge says so, and the next request has it at once. */
const assertFree = async (t: ExecutionContext): Promise<void> => {
  await paced.agent.until((status) => atRest(status) && status.replicas[0]?.state === "ready", "a free slot");
  const headers = { authorization: `Bearer ${paced.agent.localKey}` };
  const { value } = parseScrape(await (await fetch(`${paced.agent.url}/metrics`, { headers })).text());
  t.is(value("vllm:num_requests_running", { replica: "0" }), 0);
  for (const replica of ["0", "none"]) t.is(value("vllm:num_requests_waiting", { replica }), 0);
  const next = await exchange(pacedBody(freshSeed("silence", 0)));
  t.is(next.status, 200, next.text);
  t.is(JSON.parse(next.text).choices[0].finish_reason, "stop");
};

/** Statuses of errors that come before a stream's headers, or in place of a plain answer. */
const statusOf: Readonly<Record<string, number>> = { engine_error: 500, overloaded: 503, deadline_exceeded: 408 };

const assertFailed = (t: ExecutionContext, stream: boolean, status: number, code: string, text: string): void => {
  const event = stream ? (text.split("data: ").at(-1) ?? "") : text;
  t.is(status, stream ? 200 : (statusOf[code] ?? 0));
  t.is(JSON.parse(event).error.code, code, text);
  t.false(text.includes("[DONE]"));
};

for (const stream of [true, false]) {
  const endpoint = stream ? "a streamed chat completion" : "a plain chat completion";
  const fails = async (t: ExecutionContext, body: object, code: string): Promise<void> => {
    const { status, text } = await exchange(body);
    assertFailed(t, stream, status, code, text);
  };

  test.serial(`field report 4: ${endpoint} that completes gives its slot back`, async (t) => {
    const { status, text } = await exchange(pacedBody(freshSeed("tokens", 1), { stream, max_tokens: 5 }));
    t.is(status, 200);
    t.true(stream ? text.endsWith("data: [DONE]\n\n") : JSON.parse(text).usage.completion_tokens === 5);
    await assertFree(t);
  });

  test.serial(`field report 4: ${endpoint} that its client cancels gives its slot back`, async (t) => {
    const seed = freshSeed("tokens", 20);
    const { request } = paced.send(pacedBody(seed, { stream, max_tokens: 2000 }));
    await paced.untilTurn(seed, (lines) => lines.length > 3, "tokens");
    request.socket?.resetAndDestroy();
    await assertFree(t);
    t.regex(paced.turn(seed).at(-1)?.text ?? "", /^DONE .* cancel /);
  });

  test.serial(`field report 4: ${endpoint} that its engine refuses gives its slot back`, async (t) => {
    await fails(t, pacedBody(freshSeed("error", 0), { stream }), "engine_error");
    await assertFree(t);
  });

  test.serial(
    `field report 4: ${endpoint} whose engine hangs until its time is over gives its slot back`,
    async (t) => {
      await fails(t, pacedBody(freshSeed("hang", 0), { stream }), "overloaded");
      await assertFree(t);
    },
  );

  test.serial(
    `field report 4: ${endpoint} that waits past its deadline leaves no trace in queue or slot`,
    async (t) => {
      const seed = freshSeed("tokens", 20);
      const holder = paced.send(pacedBody(seed, { stream: true, max_tokens: 2000 }));
      await paced.untilTurn(seed, (lines) => lines.length > 0, "the holder's turn");
      const late = await exchange(pacedBody(freshSeed("silence", 0), { stream }), { "x-stainless-timeout": "1" });
      assertFailed(t, stream, late.status, "deadline_exceeded", late.text);
      holder.request.socket?.resetAndDestroy();
      await assertFree(t);
    },
  );
}

test.serial("field report 4: a list of models, complete or cancelled, takes no slot", async (t) => {
  const edge = { url: paced.edge.url, apiKey: paced.edge.key };
  const response = await open(edge, { method: "GET", path: "/v1/models" }).response;
  t.is(response.status, 200);
  const { bytes } = await response.rest();
  t.is(JSON.parse(bytes.toString()).object, "list");
  for (let times = 0; times < 20; times++) {
    const { request } = open(edge, { method: "GET", path: "/v1/models" });
    await new Promise((resolve) => request.once("finish", resolve));
    request.socket?.resetAndDestroy();
  }
  await assertFree(t);
});

test.serial("field report 24: 20 requests that the engine refuses leave the replica up", async (t) => {
  const before = await paced.agent.status();
  for (let times = 0; times < 20; times++) {
    t.is((await exchange(pacedBody(freshSeed("error", 0), { stream: times % 2 === 0 }))).status, times % 2 ? 500 : 200);
  }
  t.is((await paced.agent.status()).replicas[0]?.heals, before.replicas[0]?.heals);
  await assertFree(t);
});

/** Ten times the stall limit; 30 s are once the default one. */
const SILENCE_MS = 10 * STALL_S * 1_000;

test.serial(
  "field report 24: an engine that computes in silence with a turn in flight stays routable (3 s at a stall limit of 0.3 s)",
  async (t) => {
    const heals = (await paced.agent.status()).replicas[0]?.heals;
    const seed = freshSeed("computing", SILENCE_MS);
    const silent = paced.send(pacedBody(seed, { stream: true }));
    await paced.untilTurn(seed, (lines) => lines.length > 0, "GEN");
    t.is((await fetch(`${paced.agent.url}/readyz`)).status, 200);
    const waiting = await paced.send(pacedBody(freshSeed("silence", 0), { stream: true })).response;
    t.is(waiting.status, 200, "it takes another turn meanwhile");
    const during = await paced.agent.until((status) => status.waiting === 1, "the turn that waits");
    t.like(during.replicas[0], { state: "busy", heals });
    for (const answer of [await silent.response, waiting]) {
      const { bytes } = await answer.rest();
      t.true(bytes.toString().endsWith("data: [DONE]\n\n"));
    }
    const [gen, first] = paced.turn(seed).filter(({ text }) => /^(GEN|T|PP) /.test(text));
    t.true(Date.parse(first?.time ?? "") - Date.parse(gen?.time ?? "") >= SILENCE_MS * 0.9, "it was silent");
    t.is((await paced.agent.status()).replicas[0]?.heals, heals);
    await assertFree(t);
  },
);
