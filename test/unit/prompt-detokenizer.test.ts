import assert from "node:assert/strict";
import test from "ava";
import fc from "fast-check";
import { createDetokenizer, createPieceTexts } from "../../gpu-agent/src/prompt/detokenizer.ts";

const tableOf = (pieces: readonly Uint8Array[]) => {
  const offsets = new Uint32Array(pieces.length + 1);
  pieces.forEach((piece, index) => {
    offsets[index + 1] = (offsets[index] ?? 0) + piece.length;
  });
  const bytes = new Uint8Array(offsets[pieces.length] ?? 0);
  pieces.forEach((piece, index) => {
    bytes.set(piece, offsets[index]);
  });
  return createPieceTexts({ offsets, bytes });
};

const utf8 = new TextEncoder();
const decodeAll = (bytes: Uint8Array): string => new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
const concat = (pieces: readonly Uint8Array[]): Uint8Array => Uint8Array.from(pieces.flatMap((piece) => [...piece]));

/** One token a byte. */
const byteTokens = tableOf(Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte)));

const textsOf = (texts: ReturnType<typeof tableOf>, tokens: Iterable<number>): string[] => {
  const detokenizer = createDetokenizer(texts);
  return [...[...tokens].map((token) => detokenizer.push(token)), detokenizer.flush()];
};

test("a flag of eight byte tokens comes out as two whole characters", (t) => {
  const texts = textsOf(byteTokens, utf8.encode("🇵🇹"));
  t.deepEqual(texts, ["", "", "", "🇵", "", "", "", "🇹", ""]);
});

/** Bytes that make every kind of sequence likely: ASCII, continuations, all classes of first bytes, bytes that are never valid. */
const edgyByte = fc.oneof(
  fc.constantFrom(
    0x41,
    0x7f,
    0x80,
    0x8f,
    0x90,
    0x9f,
    0xa0,
    0xbf,
    0xc0,
    0xc2,
    0xdf,
    0xe0,
    0xe1,
    0xed,
    0xef,
    0xf0,
    0xf1,
    0xf4,
    0xf5,
    0xff,
  ),
  fc.integer({ min: 0, max: 255 }),
);
const edgyBytes = fc.uint8Array({ maxLength: 24 }).chain((plain) =>
  fc.oneof(
    fc.constant(plain),
    fc.array(edgyByte, { maxLength: 24 }).map((bytes) => Uint8Array.from(bytes)),
    fc.string({ unit: "binary", maxLength: 8 }).map((text) => utf8.encode(text)),
  ),
);

test("property: for any bytes in any pieces, the text is TextDecoder's and every step as far as a streaming decoder gets", (t) => {
  t.notThrows(() =>
    fc.assert(
      fc.property(fc.array(edgyBytes, { maxLength: 12 }), (pieces) => {
        const detokenizer = createDetokenizer(tableOf(pieces));
        const streaming = new TextDecoder("utf-8", { ignoreBOM: true });
        let text = "";
        pieces.forEach((piece, token) => {
          const step = detokenizer.push(token);
          assert.equal(step, streaming.decode(piece, { stream: true }));
          assert.ok(step.isWellFormed());
          text += step;
        });
        assert.equal(text + detokenizer.flush(), decodeAll(concat(pieces)));
      }),
      { numRuns: 1_000 },
    ),
  );
});

test("property: the cached text of a token does not depend on what came before it", (t) => {
  t.notThrows(() =>
    fc.assert(
      fc.property(
        fc.array(edgyBytes, { minLength: 1, maxLength: 6 }),
        fc.array(fc.nat(), { maxLength: 40 }),
        (pieces, picks) => {
          const texts = tableOf(pieces);
          const tokens = picks.map((pick) => pick % pieces.length);
          const bytes = concat(tokens.map((token) => pieces[token] ?? new Uint8Array()));
          assert.equal(textsOf(texts, tokens).join(""), decodeAll(bytes));
          assert.equal(textsOf(texts, tokens).join(""), decodeAll(bytes), "a second turn over the same cache");
        },
      ),
    ),
  );
});

test("two turns that share a model's texts do not share carried bytes", (t) => {
  const first = createDetokenizer(byteTokens);
  const second = createDetokenizer(byteTokens);
  t.is(first.push(0xc3), "");
  t.is(second.push(0x41), "A");
  t.is(first.push(0xa9), "é");
});

test("a byte order mark that the model writes is kept", (t) => {
  t.is(textsOf(tableOf([utf8.encode("\ufeffa")]), [0, 0]).join(""), "\ufeffa\ufeffa");
  t.is(textsOf(byteTokens, utf8.encode("\ufeffa")).join(""), "\ufeffa");
});

test("an unfinished character at the end is one U+FFFD, and flush gives it once", (t) => {
  const detokenizer = createDetokenizer(byteTokens);
  for (const byte of [0xf0, 0x9f, 0x87]) t.is(detokenizer.push(byte), "");
  t.is(detokenizer.flush(), "\ufffd");
  t.is(detokenizer.flush(), "");
});

test("a token without bytes between the bytes of a character changes nothing", (t) => {
  const texts = tableOf([Uint8Array.of(0xc3), new Uint8Array(), Uint8Array.of(0xa9)]);
  t.deepEqual(textsOf(texts, [0, 1, 2]), ["", "", "é", ""]);
});

test("an id outside the vocabulary is an error that names it", (t) => {
  const detokenizer = createDetokenizer(byteTokens);
  for (const token of [256, -1, 0.5])
    t.throws(() => detokenizer.push(token), { instanceOf: RangeError, message: new RegExp(`${token}`) });
});
