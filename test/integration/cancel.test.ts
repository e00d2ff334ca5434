/**
 * A client that goes away stops the GPU, in every state: the real edge, the real agent, the real decoder. Seen in the wire log: STOP and a
 * DONE with finish cancel, or no GEN at all; and the replica serves the next caller.
 */
import { connect, type Socket } from "node:net";
import test, { type ExecutionContext } from "ava";
import { atRest } from "../helpers/agent-process.ts";
import { startSlowAgent } from "../helpers/slow-agent.ts";

// One replica, so that a second caller waits.
const { agent, edge, stop } = await startSlowAgent();
test.after.always(async (t) => {
  t.is(await stop(), 0);
});

/** An answer that would go on for half a minute: the end tokens are banned. */
const endless = (content: string) => ({
  model: "default",
  messages: [{ role: "user", content }],
  logit_bias: { 1021: -100, 1023: -100 },
});
const shortPrompt = endless("Say hello.");
const longPrompt = endless("word ".repeat(900));

/** A raw client, so that the way it goes is ours. */
const send = (body: object): Socket => {
  const text = JSON.stringify(body);
  const { hostname, port } = new URL(edge.url);
  const socket = connect({ host: hostname, port: Number(port) });
  socket.on("data", () => {});
  socket.on("error", () => {});
  socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: edge\r\nauthorization: Bearer ${edge.key}\r\n` +
      `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
  );
  return socket;
};

const ways: Readonly<Record<string, (socket: Socket) => void>> = {
  "by reset": (socket) => socket.resetAndDestroy(),
  // Everything that came was read, so the kernel sends a FIN.
  "by orderly close": (socket) => socket.destroy(),
};

/** After whatever happened: the books are balanced, and the next caller is served. */
const nextIsServed = async (t: ExecutionContext): Promise<void> => {
  await agent.until(atRest, "rest");
  const response = await edge.chat({ ...shortPrompt, max_tokens: 3 });
  const answer = (await response.json()) as { usage: { completion_tokens: number } };
  t.is(answer.usage.completion_tokens, 3);
};

for (const [way, go] of Object.entries(ways)) {
  for (const stream of [true, false]) {
    const kind = stream ? "stream" : "plain request";

    test.serial(`a ${kind}, gone while tokens are made, ${way}: STOP, DONE cancel`, async (t) => {
      const before = agent.wire().length;
      const socket = send({ ...shortPrompt, stream });
      await agent.untilWire((turns) => turns.length > before && (turns.at(-1)?.tokens.length ?? 0) > 2, "tokens");
      go(socket);
      const turns = await agent.untilWire((all) => all.at(-1)?.done !== null, "DONE");
      t.is(turns.at(-1)?.done?.finish, "cancel");
      t.true((turns.at(-1)?.stopLine ?? -1) > (turns.at(-1)?.genLine ?? 0));
      await nextIsServed(t);
    });

    test.serial(`a ${kind}, gone during prefill, ${way}: STOP, DONE cancel with part of the prompt read`, async (t) => {
      const before = agent.wire().length;
      const socket = send({ ...longPrompt, stream });
      await agent.untilWire((turns) => turns.length > before, "GEN");
      go(socket);
      const turns = await agent.untilWire((all) => all.at(-1)?.done !== null, "DONE");
      const last = turns.at(-1);
      t.is(last?.done?.finish, "cancel");
      t.is(last?.tokens.length, 0);
      t.true((last?.done?.promptRead ?? Number.NaN) < (last?.promptIds.length ?? 0));
      await nextIsServed(t);
    });

    test.serial(`a ${kind}, gone while queued, ${way}: its GEN is never written`, async (t) => {
      const before = agent.wire().length;
      const holder = send({ ...shortPrompt, stream: true });
      await agent.untilWire((turns) => turns.length > before, "the holder's GEN");
      const queued = send({ ...longPrompt, stream });
      await agent.until(({ waiting }) => waiting === 1, "a turn that waits");
      go(queued);
      await agent.until(({ waiting }) => waiting === 0, "an empty queue");
      holder.resetAndDestroy();
      await nextIsServed(t);
      t.is(agent.wire().length, before + 2, "the holder's and the next caller's");
    });
  }
}
