import assert from "node:assert/strict";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import test from "ava";
import fc from "fast-check";
import {
  BLOCK_TOKENS,
  MAX_BLOCKS,
  PrefixChain,
  PrefixIndex,
  prefixBlocks,
} from "../../gpu-agent/src/replicas/prefix-index.ts";

const tokensOf = (count: number, first = 0): number[] => Array.from({ length: count }, (_, at) => first + at);
const token = fc.nat(2 ** 31 - 1);
/** Prompts that often share a beginning: whole blocks of few values. */
const prompt = fc
  .tuple(fc.array(fc.nat(2), { maxLength: 5 }), fc.array(token, { maxLength: 70 }))
  .map(([blocks, rest]) => [...blocks.flatMap((value) => new Array<number>(BLOCK_TOKENS).fill(value)), ...rest]);
const salt = fc.constantFrom("", "ab", "cd");

test("only whole blocks have a hash, and numbers and Int32Array give the same", (t) => {
  for (const [tokens, blocks] of [
    [0, 0],
    [63, 0],
    [64, 1],
    [127, 1],
    [128, 2],
  ] as const) {
    t.is(prefixBlocks("ab", tokensOf(tokens)).length, blocks);
  }
  const [, ...tail] = Int32Array.from(tokensOf(201));
  t.deepEqual(prefixBlocks("ab", Int32Array.from(tokensOf(201)).subarray(1)), prefixBlocks("ab", tail));
});

test("property: two prompts share leading hashes exactly as far as they share leading blocks and salt", (t) => {
  t.notThrows(() =>
    fc.assert(
      fc.property(prompt, prompt, salt, salt, (a, b, saltA, saltB) => {
        const [blocksA, blocksB] = [prefixBlocks(saltA, a), prefixBlocks(saltB, b)];
        let common = 0;
        const sharedTokens = a.findIndex((value, at) => value !== b[at]);
        const sharedBlocks = Math.floor((sharedTokens === -1 ? a.length : sharedTokens) / BLOCK_TOKENS);
        while (common < Math.min(blocksA.length, blocksB.length) && blocksA[common] === blocksB[common]) common++;
        assert.equal(common, saltA === saltB ? sharedBlocks : 0);
        for (let at = common; at < blocksA.length; at++) assert.ok(!blocksB.includes(blocksA[at] as bigint));
      }),
    ),
  );
});

test("property: held is never more than the prompt, in whole blocks, and what was noted is held", (t) => {
  t.notThrows(() =>
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.nat(2), salt, prompt), { maxLength: 8 }), salt, prompt, (noted, asked, text) => {
        const index = new PrefixIndex();
        for (const [replica, of, tokens] of noted) {
          const blocks = prefixBlocks(of, tokens);
          index.note(replica, blocks);
          assert.equal(index.heldTokens(replica, blocks), blocks.length * BLOCK_TOKENS);
        }
        for (const replica of [0, 1, 2]) {
          const held = index.heldTokens(replica, prefixBlocks(asked, text));
          assert.ok(held >= 0 && held <= text.length && held % BLOCK_TOKENS === 0);
          const longest = noted
            .filter(([of, under]) => of === replica && under === asked)
            .map(([, , tokens]) => {
              const differs = text.findIndex((value, at) => value !== tokens[at]);
              return Math.floor((differs === -1 ? text.length : differs) / BLOCK_TOKENS) * BLOCK_TOKENS;
            });
          assert.equal(held, Math.max(0, ...longest));
        }
      }),
    ),
  );
});

test("property: a chain that was read in part and then made longer is that of the longer sequence", (t) => {
  t.notThrows(() =>
    fc.assert(
      fc.property(salt, prompt, prompt, fc.nat(6), (of, tokens, answer, reads) => {
        const chain = new PrefixChain(of, tokens);
        const iterator = chain[Symbol.iterator]();
        for (let read = 0; read < reads; read++) iterator.next();
        assert.deepEqual([...chain], prefixBlocks(of, tokens));
        chain.extend(Int32Array.from([...tokens, ...answer]));
        assert.deepEqual([...chain], prefixBlocks(of, [...tokens, ...answer]));
      }),
    ),
  );
});

test("another tenant's salt never hits, whoever holds the same tokens", (t) => {
  const index = new PrefixIndex();
  index.note(0, prefixBlocks("ab", tokensOf(640)));
  t.is(index.heldTokens(0, prefixBlocks("ab", tokensOf(640))), 640);
  for (const other of ["", "a", "abc", "AB", "cd"]) t.is(index.heldTokens(0, prefixBlocks(other, tokensOf(640))), 0);
});

test("a prefix that is held counts up to the first block that is not", (t) => {
  const index = new PrefixIndex();
  index.note(0, prefixBlocks("ab", tokensOf(128)));
  t.is(index.heldTokens(0, prefixBlocks("ab", tokensOf(500))), 128);
  t.is(index.heldTokens(0, prefixBlocks("ab", [...tokensOf(64), ...tokensOf(64, 1_000)])), 64);
  t.is(index.heldTokens(0, prefixBlocks("ab", tokensOf(128, 1))), 0);
});

test("a replica that is forgotten holds nothing, and the others what they held", (t) => {
  const index = new PrefixIndex();
  const [both, own] = [prefixBlocks("ab", tokensOf(128)), prefixBlocks("ab", tokensOf(128, 9_000))];
  index.note(0, both);
  index.note(1, both);
  index.note(0, own);
  index.forget(0);
  t.is(index.heldTokens(0, both), 0);
  t.is(index.heldTokens(0, own), 0);
  t.is(index.heldTokens(1, both), 128);
  t.is(index.size, 2);
  index.forget(1);
  t.is(index.size, 0);
});

test("beyond the bound the least recently used blocks go, and using is noting again", (t) => {
  const index = new PrefixIndex(3);
  index.note(0, [1n]);
  index.note(0, [2n]);
  index.note(0, [3n]);
  index.note(0, [1n]);
  index.note(0, [4n]);
  t.is(index.size, 3);
  t.is(index.heldTokens(0, [2n]), 0);
  for (const block of [1n, 3n, 4n]) t.is(index.heldTokens(0, [block]), BLOCK_TOKENS);
});

test("a prompt longer than the whole index leaves it at its bound", (t) => {
  const index = new PrefixIndex(3);
  index.note(0, prefixBlocks("ab", tokensOf(640)));
  t.is(index.size, 3);
});

setFlagsFromString("--expose-gc");
const collect: () => void = runInNewContext("gc");
const heapBytes = (): number => {
  collect();
  return process.memoryUsage().heapUsed;
};
/** A table that the map has outgrown, at most; 700,000 blocks that stay would be some 100 MB. */
const MAX_GROWTH_BYTES = 24 * 1024 * 1024;

test("field report 28: a million distinct prompts stay within the bound, in number and in memory", (t) => {
  const index = new PrefixIndex();
  let largest = 0;
  let fullBytes = 0;
  for (let number = 0; number < 1_000_000; number++) {
    index.note(number % 3, [BigInt(number)]);
    largest = Math.max(largest, index.size);
    if (number === MAX_BLOCKS) fullBytes = heapBytes();
  }
  const growthBytes = heapBytes() - fullBytes;
  t.log(
    `heap ${(fullBytes / 2 ** 20).toFixed(1)} MiB when full, ${(growthBytes / 2 ** 20).toFixed(1)} MiB more at the end`,
  );
  t.true(growthBytes < MAX_GROWTH_BYTES, `grew by ${growthBytes} bytes`);
  t.is(largest, MAX_BLOCKS);
  t.is(index.heldTokens(0, [999_999n]), BLOCK_TOKENS);
  t.is(index.heldTokens(0, [0n]), 0);
});
