import assert from "node:assert/strict";
import type { DecoderEvent, TurnStatistics } from "@lockgate/native";
import test from "ava";
import fc from "fast-check";
import { type AnswerAddress, formatError, formatEvent } from "../../gpu-agent/src/host/answers.ts";
import { type EngineMessage, parseLine } from "../../gpu-agent/src/replicas/wire.ts";

const count = fc.nat(2_000_000_000);
/** As the wire carries times: with one decimal. */
const time = fc.nat(1_000_000_000).map((tenths) => tenths / 10);
const slot = fc.nat(63);
const turn = fc.nat(1_000);
const address: fc.Arbitrary<AnswerAddress> = fc.record({
  slot: fc.option(slot, { nil: undefined }),
  tag: fc.oneof(fc.constant(-1), fc.nat(2 ** 31)),
});
const statistics: fc.Arbitrary<TurnStatistics> = fc.record({
  generated: count,
  promptTokens: count,
  promptMs: time,
  decodeMs: time,
  finish: fc.constantFrom("stop", "length", "cancel", "nonfinite", "error"),
  reused: count,
  promptRead: count,
});
const event: fc.Arbitrary<DecoderEvent> = fc.oneof(
  fc.record({ type: fc.constant("token"), turn, slot, token: count }),
  fc.record({ type: fc.constant("resume"), turn, slot, reused: count }),
  fc.record({
    type: fc.constant("prefill"),
    turn,
    slot,
    position: count,
    total: count,
    ms: time,
    tokensPerSecond: time,
  }),
  fc.record({ type: fc.constant("done"), turn, slot, statistics }),
);

const expected = (from: DecoderEvent, at: AnswerAddress): EngineMessage => {
  const to = { slot: at.slot ?? -1, turn: at.tag };
  switch (from.type) {
    case "token":
      return { kind: "token", id: from.token, ...to };
    case "resume":
      return { kind: "resume", reused: from.reused, ...to };
    case "prefill":
      return { kind: "prefill", position: from.position, total: from.total, ms: from.ms, ...to };
    case "done": {
      const none = { draftsAccepted: 0, draftsOffered: 0, expertHits: 0, expertLookups: 0 };
      const tiers = { ramBlobs: 0, fileBlobs: 0, fileMb: 0, offloaded: 0 };
      return { kind: "done", statistics: { ...from.statistics, ...none, ...tiers }, ...to };
    }
    case "error":
      return { kind: "error", message: from.message, ...to };
  }
};

/** The one line that was written, without its LF. */
const lineOf = (text: string): string => {
  assert.equal(text.indexOf("\n"), text.length - 1, "one line, one LF");
  return text.slice(0, -1);
};

test("property: the agent reads every event as the host meant it", (t) => {
  t.notThrows(() =>
    fc.assert(
      fc.property(event, address, (from, at) => {
        assert.deepEqual(parseLine(lineOf(formatEvent(from, at))), expected(from, at));
      }),
      { numRuns: 3_000 },
    ),
  );
});

test("property: an error's message arrives whole, whatever its words", (t) => {
  const word = fc.oneof(
    fc.string({ minLength: 1, maxLength: 8 }),
    fc.nat().map(String),
    fc.constantFrom("ERR", "turn=5", "=", "B"),
  );
  const message = fc
    .array(word, { maxLength: 6 })
    .map((words) => words.join(" ").trim())
    .filter((text) => !/[\r\n]/.test(text));
  t.notThrows(() =>
    fc.assert(
      fc.property(message, address, (text, at) => {
        // A message that ends like a tag cannot be told from one where there is no real tag behind it.
        fc.pre(at.tag !== -1 || !/(^| )turn=\d{1,15}$/.test(text));
        const from: DecoderEvent = { type: "error", turn: 1, slot: at.slot ?? 0, code: "ERR_DECODE", message: text };
        assert.deepEqual(parseLine(lineOf(formatEvent(from, at))), expected(from, at));
      }),
      { numRuns: 3_000 },
    ),
  );
});

test("a message of several lines goes out as one", (t) => {
  const line = formatError("first\r\nDONE 1 2\n\nlast", { slot: undefined, tag: 3 });
  t.is(line, "ERR first DONE 1 2 last turn=3\n");
});
