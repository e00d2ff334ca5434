/** The soak's bookkeeping can fail: each thing that must not be is put into books that balance, and the one check that must see it does. */

import type { DoneStatistics, UsageRecord } from "@lockgate/shared-types";
import test, { type ExecutionContext } from "ava";
import { doneStatistics } from "../helpers/done-statistics.ts";
import { recordNumber } from "../helpers/usage-records.ts";
import { type Books, balanceBooks, type LifeBooks } from "../soak/books.ts";
import type { WireTurn } from "../soak/wire-turns.ts";

const doneOf = (generated: number): DoneStatistics =>
  doneStatistics({ generated, decodeMs: generated / 10, draftsAccepted: 0, draftsOffered: 0 });

/** Turn n generated n tokens on replica 0, and was booked, logged and seen so. */
const wireTurn = (turn: number): WireTurn => ({
  turn,
  replica: 0,
  tokens: turn,
  done: doneOf(turn),
  genAtMs: turn * 1_000 - 500,
  doneAtMs: turn * 1_000,
  ends: 1,
});
const record = (turn: number): UsageRecord => ({
  ...recordNumber(turn),
  agent_id: "soak-1",
  engine: {
    generated_tokens: turn,
    prompt_tokens: 20,
    prompt_read_tokens: 15,
    reused_tokens: 5,
    prompt_ms: 3.5,
    decode_ms: turn / 10,
    finish: "stop",
    drafts_accepted: 0,
    drafts_offered: 0,
  },
});
/** As a record says it whose DONE was never read. */
const lostRecord = (turn: number): UsageRecord => ({
  ...record(turn),
  outcome: "failed",
  finish_reason: null,
  error_code: "overloaded",
  completion_tokens: 0,
  engine: null,
});
const logged = (turn: number) => ({ request: `req_${turn}`, turn, completionTokens: turn, generated: turn });
const seen = (turn: number) => ({ requestId: `req_${turn}`, completionTokens: turn });

const TURNS = [1, 2, 3, 4, 5, 6];
const life: LifeBooks = {
  id: "soak-1",
  killed: false,
  slots: 2,
  wire: { turns: TURNS.map(wireTurn), strayLines: 0 },
  logged: TURNS.map(logged),
  givenUp: [],
};
const books: Books = { lives: [life], records: TURNS.map(record), again: [], seen: TURNS.map(seen) };

const failing = (changed: Partial<Books>): string[] =>
  balanceBooks({ ...books, ...changed })
    .checks.filter(({ ok }) => !ok)
    .map(({ name }) => name);

const fails = (t: ExecutionContext, changed: Partial<Books>, ...names: readonly string[]): void =>
  void t.deepEqual(failing(changed).sort(), [...names].sort());

test("books that balance pass every check, and the figures are their sums", (t) => {
  fails(t, {});
  const { figures } = balanceBooks(books);
  t.like(figures, { records: 6, doneLines: 6, doneTokens: 21, bookedTokens: 21, consumedTokens: 21 });
});

test("a missing record is seen from the wire, from the log, and by the client that saw its end", (t) => {
  fails(
    t,
    { records: TURNS.slice(1).map(record) },
    "DONE lines without a record",
    "turns of which log, wire and record differ",
    "turns seen finished, not booked once as seen",
  );
});

test("a record that was booked twice is seen", (t) => {
  fails(
    t,
    { records: [...books.records, record(3)] },
    "records booked twice",
    "records without their DONE line",
    "requests with a missing attempt",
    "tokens in records = in DONE lines",
    "turns seen finished, not booked once as seen",
  );
});

test("a delivery that comes again is no second booking, unless its figures differ", (t) => {
  fails(t, { again: [record(3)] });
  fails(t, { again: [{ ...record(3), completion_tokens: 2 }] }, "records booked twice");
});

test("a wrong count in a record is seen in the sum and at its turn", (t) => {
  const engine = record(4).engine;
  const wrong: UsageRecord = { ...record(4), engine: engine && { ...engine, generated_tokens: 5 } };
  fails(
    t,
    { records: TURNS.map((turn) => (turn === 4 ? wrong : record(turn))) },
    "DONE lines without a record",
    "records without their DONE line",
    "tokens in records = in DONE lines",
    "turns of which log, wire and record differ",
  );
});

test("figures of two turns that were swapped between their records are seen, though every sum is right", (t) => {
  const swapped = (turn: number) => (turn === 1 ? 2 : turn === 2 ? 1 : turn);
  const records = TURNS.map((turn) => ({ ...record(turn), engine: record(swapped(turn)).engine }));
  fails(t, { records }, "turns of which log, wire and record differ", "turns that consumed more than was generated");
});

test("a turn that consumed other than its client saw is seen", (t) => {
  fails(t, { seen: [{ requestId: "req_3", completionTokens: 2 }] }, "turns seen finished, not booked once as seen");
  fails(t, { seen: [{ requestId: "req_3", completionTokens: null }] });
});

test("a turn without DONE needs a record of its own, and a finished one of somebody else is none", (t) => {
  const turns = [
    ...life.wire.turns,
    { turn: 7, replica: 1, tokens: 2, done: null, genAtMs: 0, doneAtMs: Number.NaN, ends: 0 },
  ];
  const lives = [{ ...life, wire: { turns, strayLines: 0 } }];
  fails(t, { lives }, "turns without DONE and record");
  fails(t, { lives, records: [...books.records, { ...lostRecord(7), replica: 1 }] });
  fails(t, { lives, records: [...books.records, { ...lostRecord(7), replica: 0 }] }, "turns without DONE and record");
});

test("a DONE that came when its replica was given up may be missing from its record, an earlier one or another replica's may not", (t) => {
  const silent: UsageRecord = { ...lostRecord(3), outcome: "aborted", error_code: null };
  const changed = (replica: number | null, atMs: number): Partial<Books> => ({
    lives: [
      {
        ...life,
        logged: TURNS.map((turn) => ({
          ...logged(turn),
          ...(turn === 3 ? { generated: null, completionTokens: 0 } : {}),
        })),
        givenUp: [{ replica, atMs }],
      },
    ],
    records: TURNS.map((turn) => (turn === 3 ? silent : record(turn))),
    seen: [],
  });
  const names = ["DONE lines without a record", "turns of which log, wire and record differ"];
  fails(t, changed(0, 3_000));
  fails(t, changed(null, 2_501));
  fails(t, changed(0, 3_001), ...names);
  fails(t, changed(0, 2_499), ...names);
  fails(t, changed(1, 3_000), ...names);
  t.is(balanceBooks({ ...books, ...changed(0, 3_000) }).figures.lateDoneLines, 1);
});

test("a turn that moved has a record for each attempt; a gap between them is seen", (t) => {
  const moved = { ...record(6), attempt: 2, turn_id: "req_6.2" };
  const others = TURNS.slice(0, -1).map(record);
  fails(t, { records: [...others, lostRecord(6), moved] });
  fails(t, { records: [...others, moved] }, "requests with a missing attempt");
});

test("a killed agent may leave one turn a slot unbooked that no client saw finished, and not one more", (t) => {
  const lives = [{ ...life, killed: true, logged: [] }];
  const without = (count: number) => ({
    lives,
    records: TURNS.slice(count).map(record),
    seen: TURNS.slice(count).map(seen),
  });
  fails(t, without(2));
  fails(t, without(3), "turns that a killed agent left unbooked, the most of one");
  fails(t, { ...without(1), seen: [seen(1)] }, "turns seen finished, not booked once as seen");
});

test("a record of an agent that never ran, stray lines, a second end and a token line too many are seen", (t) => {
  fails(t, { records: [...books.records, { ...lostRecord(9), agent_id: "other" }] }, "records of no known agent");
  const wireOf = (changed: Partial<WireTurn>, strayLines = 0) => ({
    lives: [{ ...life, wire: { turns: [{ ...wireTurn(1), ...changed }, ...life.wire.turns.slice(1)], strayLines } }],
  });
  fails(t, wireOf({}, 1), "lines of turns that did not run");
  fails(t, wireOf({ ends: 2 }), "turns that ended twice");
  fails(t, wireOf({ tokens: 2 }), "turns with other token lines than their DONE says");
});
