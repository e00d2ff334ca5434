/** Field reports about the bytes of a stream, through the real edge: its agent is scripted, for it has to send what a real one does not. */
import test from "ava";
import { createParser } from "eventsource-parser";
import { onlyAgent, startEdgeUnderTest } from "../helpers/edge-worker.ts";
import { exchange } from "../helpers/edge-worker-client.ts";
import type { Script } from "../helpers/scripted-agent.ts";

const edge = await startEdgeUnderTest();
const agent = onlyAgent(edge);
test.after.always(() => edge.stop());

const eventsIn = (text: string): string[] => {
  const events: string[] = [];
  createParser({ onEvent: ({ data }) => void events.push(data) }).feed(text);
  return events;
};

const contents = ["東京都", "👩‍👩‍👧‍👦 🇵🇹", "naïve Zürich", "﷽ 𝄞 क्षि"];
const lines = [...contents.flatMap((content) => [`data: ${JSON.stringify({ content })}`, ""]), "data: [DONE]", ""];

/** One chunk for each byte. */
const sendByteByByte =
  (bytes: Buffer): Script =>
  async (reply) => {
    reply.head(200, { "content-type": "text/event-stream; charset=utf-8" });
    for (let at = 0; at < bytes.length; at += 1) await reply.write(bytes.subarray(at, at + 1));
    reply.end();
  };

for (const [name, end] of [
  ["LF", "\n"],
  ["CRLF", "\r\n"],
  ["CR", "\r"],
] as const) {
  test.serial(
    `field report 19: CJK and emoji in one-byte chunks with ${name}: the same bytes, and every event whole`,
    async (t) => {
      const bytes = Buffer.from(lines.map((line) => `${line}${end}`).join(""));
      agent.script = sendByteByByte(bytes);
      const answer = await exchange(edge);
      t.true(answer.clean);
      t.deepEqual(answer.bytes, bytes);
      t.false(answer.text.includes("\ufffd"));
      // What follows a last CR could be the rest of a CRLF: a parser waits for it.
      const events = eventsIn(end === "\r" ? `${answer.text}\n` : answer.text);
      t.is(events.pop(), "[DONE]");
      t.deepEqual(
        events.map((data) => JSON.parse(data).content),
        contents,
      );
    },
  );
}

const whole = 'data: {"content":"東"}\n\n';
for (const [what, sent, end, clean] of [
  ["an end without the last blank line", `${whole}data: [DONE]\n`, "end", true],
  ["an end without any newline", `${whole}data: [DONE]`, "end", true],
  ["an end without [DONE]", whole, "end", true],
  ["an end in the middle of an event", `${whole}data: {"con`, "end", true],
  ["a reset before [DONE]", whole, "reset", false],
  ["a reset before the last blank line", `${whole}data: [DONE]\n`, "reset", false],
] as const) {
  test.serial(`field report 20: ${what} reaches the client as it is: nothing lost, no [DONE] added`, async (t) => {
    agent.script = async (reply) => {
      reply.head(200, { "content-type": "text/event-stream; charset=utf-8" });
      await reply.write(sent);
      reply[end]();
    };
    const answer = await exchange(edge);
    t.is(answer.status, 200);
    t.is(answer.clean, clean);
    // A reset may overtake what was sent before it.
    if (clean) t.is(answer.text, sent);
    else t.true(sent.startsWith(answer.text), answer.text);
  });
}
