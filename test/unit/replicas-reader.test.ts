import assert from "node:assert/strict";
import test from "ava";
import fc from "fast-check";
import { EngineReader, MAX_LINE_BYTES } from "../../gpu-agent/src/replicas/reader.ts";
import { type EngineMessage, parseLine } from "../../gpu-agent/src/replicas/wire.ts";

type Call = readonly [id: number, slot: number, turn: number] | EngineMessage;

/** What a reader reports of these chunks. */
const read = (...chunks: readonly Uint8Array[]): Call[] => {
  const calls: Call[] = [];
  const reader = new EngineReader({
    token: (id, slot, turn) => calls.push([id, slot, turn]),
    message: (message) => calls.push(message),
  });
  for (const chunk of chunks) reader.push(Buffer.from(chunk));
  return calls;
};

const bytesOf = (text: string): Buffer => Buffer.from(text, "utf8");

/** The grammar's word on whole lines of text, one call a line, up to the first that breaks it. */
const byGrammar = (lines: readonly string[]): Call[] => {
  const calls: Call[] = [];
  for (const line of lines) {
    if (line === "") continue;
    const message = parseLine(line);
    calls.push(message.kind === "token" ? [message.id, message.slot, message.turn] : message);
    if (message.kind === "malformed") break;
  }
  return calls;
};

const cut = (bytes: Buffer, places: readonly number[]): Buffer[] => {
  const at = [0, ...places.map((place) => place % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
  return at.slice(1).map((end, index) => bytes.subarray(at[index], end));
};

const digits = fc.oneof(fc.nat(99_999).map(String), fc.stringMatching(/^\d{14,18}$/), fc.constantFrom("", "0", "007"));
/** Everything that a token line may look like, right and wrong. */
const tokenLine = fc
  .record({
    lead: fc.constantFrom("", " "),
    head: fc.constantFrom("T", "BT", "B", "TT", "BBT"),
    gap: fc.constantFrom(" ", "  ", "", "\t"),
    slot: fc.oneof(
      fc.constant(""),
      fc.nat(70).map((slot) => `${slot} `),
      fc.constantFrom("x ", "-1 "),
    ),
    sign: fc.constantFrom("", "", "", "-", "+"),
    id: digits,
    tail: fc.oneof(
      fc.constantFrom(
        "",
        " ",
        " turn=",
        " turn=x",
        "turn=5",
        " turn=5 ",
        "  turn=5",
        " turn=5 turn=6",
        " Turn=5",
        " a=b",
        " tur",
        " 9",
      ),
      digits.map((turn) => ` turn=${turn}`),
      digits.map((turn) => ` a=b turn=${turn}`),
    ),
  })
  .map(({ lead, head, gap, slot, sign, id, tail }) => `${lead}${head}${gap}${slot}${sign}${id}${tail}`);
const otherLine = fc.constantFrom(
  "",
  "INFO device=cpu name=größe",
  "READY 4096 stop turns",
  "RESUME 5 turn=1",
  "PP 1 2 3.5 4 turn=1",
  "DONE 1 2 3.0 4.0 stop turn=1",
  "ERR 🙂 no turn=1",
  "something else",
);

test("property: the fast path agrees with the grammar on every shape of token line", (t) => {
  t.notThrows(() =>
    fc.assert(
      fc.property(tokenLine, (line) => {
        assert.deepEqual(read(bytesOf(`${line}\n`)), byGrammar([line]));
      }),
      { numRuns: 20_000 },
    ),
  );
});

test("property: any chunking of the same bytes gives the same calls, and those are the grammar's", (t) => {
  const lines = fc.array(fc.oneof({ weight: 3, arbitrary: tokenLine }, { weight: 2, arbitrary: otherLine }), {
    maxLength: 12,
  });
  t.notThrows(() =>
    fc.assert(
      fc.property(lines, fc.constantFrom("\n", "\r\n"), fc.array(fc.nat(), { maxLength: 30 }), (texts, end, places) => {
        const bytes = bytesOf(texts.map((text) => `${text}${end}`).join(""));
        const calls = byGrammar(texts);
        assert.deepEqual(read(bytes), calls);
        assert.deepEqual(read(...cut(bytes, places)), calls);
        assert.deepEqual(read(...cut(bytes, [...bytes.keys()])), calls);
      }),
      { numRuns: 2_000 },
    ),
  );
});

test("a line without its end is not reported", (t) => {
  t.deepEqual(read(bytesOf("T 1\nT 2")), [[1, -1, -1]]);
});

/** Long lines as their length: a difference of a million characters is no message to read. */
const lengths = (calls: readonly Call[]): unknown[] =>
  calls.map((call) =>
    "kind" in call && call.kind === "unknown" ? { kind: call.kind, length: call.line.length } : call,
  );

test("a line of exactly the most bytes is read, however it is cut and ended", (t) => {
  const line = `X${"y".repeat(MAX_LINE_BYTES - 1)}`;
  for (const end of ["\n", "\r\n"]) {
    const bytes = bytesOf(`${line}${end}T 1\n`);
    for (const places of [
      [],
      [1],
      [MAX_LINE_BYTES],
      [MAX_LINE_BYTES + 1],
      [10, MAX_LINE_BYTES - 1, MAX_LINE_BYTES, MAX_LINE_BYTES + 1],
    ]) {
      const calls = lengths(read(...cut(bytes, places)));
      t.deepEqual(calls, [{ kind: "unknown", length: MAX_LINE_BYTES }, [1, -1, -1]], JSON.stringify([end, places]));
    }
  }
});

test("a line of one byte more breaks the grammar, however it is cut, and nothing after it is reported", (t) => {
  const tooLong = [{ kind: "malformed" as const, line: "", reason: `a line of more than ${MAX_LINE_BYTES} bytes` }];
  for (const end of ["\n", "\r\n"]) {
    const bytes = bytesOf(`${"y".repeat(MAX_LINE_BYTES + 1)}${end}T 1\n`);
    for (const places of [[], [1], [MAX_LINE_BYTES], [MAX_LINE_BYTES + 1], [MAX_LINE_BYTES + 2]]) {
      t.deepEqual(lengths(read(...cut(bytes, places))), tooLong, JSON.stringify([end, places]));
    }
  }
});

test("a line that never ends is given up at the bound, not at its end", (t) => {
  const calls = read(...Array.from({ length: 20 }, () => Buffer.alloc(MAX_LINE_BYTES / 16, 120)));
  t.is(calls.length, 1);
  t.like(calls[0], { kind: "malformed" });
});

test("a line that is not UTF-8 breaks the grammar, whole or cut in the middle of a sequence", (t) => {
  const broken = [{ kind: "malformed" as const, line: "", reason: "a line that is not UTF-8" }];
  const bytes = Buffer.concat([bytesOf("ERR caf"), Buffer.of(0xc3), bytesOf("\nT 1\n")]);
  t.deepEqual(read(bytes), broken);
  t.deepEqual(read(...cut(bytes, [8])), broken);
});

test("after a line that breaks the grammar nothing is reported, in the same chunk or a later one", (t) => {
  const calls = read(bytesOf("T 1\nT x\nT 2\nT 3"), bytesOf("\nT 4\n"), bytesOf("DONE 1 2 3 4 stop\n"));
  t.is(calls.length, 2);
  t.deepEqual(calls[0], [1, -1, -1]);
  t.like(calls[1], { kind: "malformed", line: "T x" });
});
