import assert from "node:assert/strict";
import test from "ava";
import fc from "fast-check";
import { parseCommand } from "../../gpu-agent/src/host/commands.ts";
import { type EngineSampling, formatGenerate, formatStop, quitLine } from "../../gpu-agent/src/replicas/wire.ts";

const decimal = fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => value + 0); // -0 is written as 0
const integer = fc.integer({ min: -1, max: 2 ** 32 - 1 });
const optional = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined });
const sampling: fc.Arbitrary<EngineSampling> = fc.record(
  {
    temperature: decimal,
    topP: decimal,
    topK: integer,
    minP: decimal,
    penaltyRepeat: decimal,
    penaltyFreq: decimal,
    penaltyPresent: decimal,
    penaltyLastN: integer,
    seed: integer,
    logitBias: fc.array(fc.tuple(fc.nat(), decimal), { minLength: 1, maxLength: 5 }),
  },
  { requiredKeys: [], noNullPrototype: true },
);
const request = fc.record({
  prompt: fc.array(fc.nat(999_999_999), { minLength: 1, maxLength: 50 }),
  maxTokens: fc.integer({ min: 1, max: 999_999_999 }),
  sampling,
  salt: fc.stringMatching(/^[0-9a-f]{0,32}$/),
});
const address = fc.record({
  slot: optional(fc.nat(9_999)),
  turn: optional(fc.nat(Number.MAX_SAFE_INTEGER).filter((n) => n < 1e15)),
});

test("property: the host reads every generation as the agent meant it", (t) => {
  t.notThrows(() =>
    fc.assert(
      fc.property(request, address, (sent, at) => {
        assert.deepEqual(parseCommand(formatGenerate(sent, at).slice(0, -1)), {
          kind: "generate",
          slot: at.slot ?? 0,
          turn: at.turn ?? -1,
          maxTokens: sent.maxTokens,
          sampling: sent.sampling,
          salt: sent.salt,
          prompt: Int32Array.from(sent.prompt),
        });
      }),
      { numRuns: 2_000 },
    ),
  );
});

test("property: STOP, GENI and QUIT are read as the agent meant them", (t) => {
  t.notThrows(() =>
    fc.assert(
      fc.property(request, address, (sent, at) => {
        const where = { slot: at.slot ?? 0, turn: at.turn ?? -1 };
        assert.deepEqual(parseCommand(formatStop(at).slice(0, -1)), { kind: "stop", ...where });
        const auxiliary = formatGenerate({ ...sent, embeddingsFile: "folder/e.bin" }, at);
        assert.deepEqual(parseCommand(auxiliary.slice(0, -1)), { kind: "auxiliary", ...where });
      }),
      { numRuns: 200 },
    ),
  );
  t.deepEqual(parseCommand(quitLine.slice(0, -1)), { kind: "quit" });
});

test("property: garbage never throws, and never becomes a generation without ids", (t) => {
  const word = fc.oneof(
    fc.constantFrom(
      "GEN",
      "BGEN",
      "GENI",
      "BGENI",
      "STOP",
      "BSTOP",
      "QUIT",
      "turn=1",
      "turn=",
      "salt=",
      "logit_bias=1:2",
      "seed=x",
    ),
    fc.integer().map(String),
    fc.array(fc.integer(), { maxLength: 4 }).map((ids) => ids.join(",")),
    fc.string({ unit: "binary", maxLength: 8 }),
  );
  const line = fc.oneof(
    fc.array(word, { maxLength: 12 }).map((words) => words.join(" ")),
    fc.string({ unit: "binary" }),
  );
  t.notThrows(() =>
    fc.assert(
      fc.property(line, (text) => {
        const command = parseCommand(text);
        if (command.kind !== "generate") return;
        assert.ok(command.prompt.length > 0 && command.maxTokens > 0 && command.slot >= 0);
        for (const value of Object.values(command.sampling)) assert.ok(Array.isArray(value) || Number.isFinite(value));
      }),
      { numRuns: 5_000 },
    ),
  );
});

test("unknown keys are skipped, also those that every JavaScript object has", (t) => {
  for (const key of ["spec_min_p=0.5", "constructor=x", "toString=1", "__proto__=1", "hasOwnProperty=1"]) {
    t.deepEqual(
      parseCommand(`GEN 4 ${key} temperature=0.5 1,2`),
      {
        kind: "generate",
        slot: 0,
        turn: -1,
        maxTokens: 4,
        sampling: { temperature: 0.5 },
        salt: "",
        prompt: Int32Array.of(1, 2),
      },
      key,
    );
  }
});

test("a generation that cannot be run is invalid, and says which slot and turn it was for", (t) => {
  for (const line of [
    "BGEN 3 0 turn=7 1",
    "BGEN 3 -1 turn=7 1",
    "BGEN 3 many turn=7 1",
    "BGEN 3 4 turn=7",
    "BGEN 3 4 turn=7 1,,2",
    "BGEN 3 4 turn=7 1,-2",
    "BGEN 3 4 turn=7 1,x",
    "BGEN 3 4 turn=7 1,9999999999",
    "BGEN 3 4 temperature=hot turn=7 1",
    "BGEN 3 4 temperature= turn=7 1",
    "BGEN 3 4 temperature=Infinity turn=7 1",
    "BGEN 3 4 logit_bias=1 turn=7 1",
    "BGEN 3 4 logit_bias=1:2:3 turn=7 1",
    "BGEN 3 4 logit_bias=a:2 turn=7 1",
  ]) {
    t.like(parseCommand(line), { kind: "invalid", slot: 3, turn: 7 }, line);
  }
  t.like(parseCommand("BGEN x 4 turn=7 1"), { kind: "invalid", slot: -1, turn: 7 });
  t.like(parseCommand("BGEN"), { kind: "invalid", slot: -1, turn: -1 });
});

test("a first word that the grammar does not know is reported as unknown", (t) => {
  t.deepEqual(parseCommand("HELLO 1"), { kind: "unknown", word: "HELLO" });
  t.deepEqual(parseCommand(""), { kind: "unknown", word: "" });
  t.deepEqual(parseCommand("BQUIT"), { kind: "unknown", word: "BQUIT" });
});
