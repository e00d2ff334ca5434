import assert from "node:assert/strict";
import test from "ava";
import fc from "fast-check";
import {
  type Candidate,
  chooseReplica,
  LOAD_TOKENS,
  replicaCost,
} from "../../gpu-agent/src/replicas/choose-replica.ts";

const candidate = (index: number, rereadTokens = 0, load = 0, lastTurn = 0): Candidate => ({
  index,
  rereadTokens,
  load,
  lastTurn,
});
const few = fc.nat(2);
const candidates = fc
  .array(fc.record({ rereadTokens: few.map((n) => n * LOAD_TOKENS), load: few, lastTurn: few }), { maxLength: 6 })
  .map((list) => list.map((known, index): Candidate => ({ index, ...known })));

test("with no candidate there is no choice", (t) => {
  t.is(chooseReplica([]), null);
});

test("the one that has to read least is chosen while loads are equal", (t) => {
  t.is(chooseReplica([candidate(0, 900), candidate(1, 100), candidate(2, 500)]), 1);
});

test("a held prefix outweighs load up to what a full replica weighs, and no further", (t) => {
  t.is(chooseReplica([candidate(0, 0, 1), candidate(1, LOAD_TOKENS + 1, 0)]), 0);
  t.is(chooseReplica([candidate(0, 0, 1), candidate(1, LOAD_TOKENS - 1, 0)]), 1);
});

test("ties go to the lower load, then to the one whose last turn was longest ago, then to the lower index", (t) => {
  t.is(chooseReplica([candidate(0, 0, 1), candidate(1, LOAD_TOKENS, 0)]), 1);
  t.is(chooseReplica([candidate(0, 5, 1, 7), candidate(1, 5, 1, 6)]), 1);
  t.is(chooseReplica([candidate(2, 5, 1, 7), candidate(1, 5, 1, 7)]), 1);
});

test("property: the choice costs least, wins its ties, and does not depend on the order of the list", (t) => {
  t.notThrows(() =>
    fc.assert(
      fc.property(candidates, fc.infiniteStream(fc.nat()), (list, random) => {
        const chosen = chooseReplica(list);
        if (chosen === null) return assert.equal(list.length, 0);
        const key = (known: Candidate) => [replicaCost(known), known.load, known.lastTurn, known.index];
        const best = list.map(key).sort((a, b) => {
          const at = a.findIndex((value, place) => value !== b[place]);
          return at === -1 ? 0 : (a[at] as number) - (b[at] as number);
        })[0];
        assert.deepEqual(key(list[chosen] as Candidate), best);
        const shuffled = list
          .map((known) => ({ known, order: random.next().value as number }))
          .sort((a, b) => a.order - b.order)
          .map(({ known }) => known);
        assert.equal(chooseReplica(shuffled), chosen);
      }),
    ),
  );
});
