import assert from "node:assert/strict";
import test from "ava";
import fc from "fast-check";
import { commonPrefixLength, SlotCaches } from "../../gpu-agent/src/replicas/slot-caches.ts";

test("the common prefix is counted up to the first difference or the shorter end", (t) => {
  t.is(commonPrefixLength([], [1]), 0);
  t.is(commonPrefixLength([1, 2, 3], Int32Array.of(1, 2, 4)), 2);
  t.is(commonPrefixLength([1, 2], [1, 2, 3]), 2);
});

test("the free slot with the longest common prefix is chosen", (t) => {
  const caches = new SlotCaches();
  caches.note(0, "ab", [1, 2, 3], [4]);
  caches.note(1, "ab", [1, 2], []);
  caches.note(2, "ab", [9], []);
  t.is(caches.choose([2, 1, 0], "ab", [1, 2, 3, 4, 5]), 0);
  t.is(caches.choose([2, 1], "ab", [1, 2, 3, 4, 5]), 1);
});

test("another salt saves nothing, however much is the same", (t) => {
  const caches = new SlotCaches();
  caches.note(0, "ab", [1, 2, 3], []);
  caches.note(1, "cd", [1], []);
  t.is(caches.choose([0, 1], "cd", [1, 2, 3]), 1);
  t.is(caches.choose([0, 1, 2], "ef", [1, 2, 3]), 2);
});

test("without a common prefix an unused slot is chosen, else the least recently used", (t) => {
  const caches = new SlotCaches();
  caches.note(1, "ab", [1], []);
  t.is(caches.choose([1, 0], "ab", [7]), 0);
  caches.note(0, "ab", [2], []);
  t.is(caches.choose([0, 1], "ab", [7]), 1);
  caches.note(1, "ab", [3], []);
  t.is(caches.choose([0, 1], "ab", [7]), 0);
  t.is(caches.choose([1], "ab", [7]), 1);
});

test("a slot that was cleared is unused again, one or all of them", (t) => {
  const caches = new SlotCaches();
  caches.note(0, "ab", [1, 2], []);
  caches.note(1, "ab", [1], []);
  caches.clear(0);
  t.is(caches.choose([0, 1], "ab", [1, 2]), 1);
  t.is(caches.choose([0, 1], "ab", [5]), 0);
  caches.clearAll();
  t.is(caches.choose([1, 0], "ab", [1, 2]), 1);
});

test("what is noted is prompt and answer, a copy", (t) => {
  const prompt = [1, 2];
  const held = new SlotCaches().note(0, "ab", prompt, [3]);
  prompt[0] = 9;
  t.deepEqual([...held], [1, 2, 3]);
});

test("with no free slot there is nothing to choose", (t) => {
  t.throws(() => new SlotCaches().choose([], "ab", [1]), { message: /no free slot/ });
});

test("property: the choice is always one of the free slots", (t) => {
  const note = fc.tuple(fc.nat(5), fc.constantFrom("ab", "cd"), fc.array(fc.nat(1), { maxLength: 4 }));
  const free = fc.uniqueArray(fc.nat(5), { minLength: 1 });
  t.notThrows(() =>
    fc.assert(
      fc.property(fc.array(note), free, fc.array(fc.nat(1), { maxLength: 4 }), (notes, slots, prompt) => {
        const caches = new SlotCaches();
        for (const [slot, salt, tokens] of notes) caches.note(slot, salt, tokens, []);
        assert.ok(slots.includes(caches.choose(slots, "ab", prompt)));
      }),
    ),
  );
});
