import test from "ava";
import { FleetTable, MAX_ROWS, NO_OVERRIDE } from "../../edge/src/fleet/fleet-table.ts";
import { beatOf } from "../helpers/fleet-agents.ts";

test("a reader that has the newest version gets the clock and no rows", (t) => {
  const table = new FleetTable("start", []);
  table.beat("a", beatOf("a"), 1_000);
  const first = table.snapshot(null, 1_500);
  t.like(first, { nowMs: 1_500, rows: [{ name: "a", beatAtMs: 1_000, beats: 1, override: NO_OVERRIDE }] });
  t.deepEqual(table.snapshot(first.version, 2_000), { version: first.version, nowMs: 2_000, rows: null });
  table.beat("a", beatOf("a"), 2_500);
  t.like(table.snapshot(first.version, 3_000), { rows: [{ beatAtMs: 2_500, beats: 2 }] });
});

test("the version of one start is none of another's", (t) => {
  t.not(new FleetTable("1", []).snapshot(null, 0).version, new FleetTable("2", []).snapshot(null, 0).version);
});

test("what an operator sets outlives heartbeats, and changes what is given alone", (t) => {
  const table = new FleetTable("start", [["a", { disabled: true, weight: 3 }]]);
  table.beat("a", beatOf("a"), 0);
  t.like(table.snapshot(null, 0), { rows: [{ override: { disabled: true, weight: 3 } }] });
  t.deepEqual(table.set("a", { disabled: false }), { disabled: false, weight: 3 });
  t.deepEqual(table.set("a", { weight: null }), { disabled: false, weight: null });
  t.deepEqual(table.set("new", { weight: 2 }), { disabled: false, weight: 2 });
});

test("a full table makes room by the row that was silent longest", (t) => {
  const table = new FleetTable("start", []);
  for (let index = 0; index <= MAX_ROWS; index += 1) table.beat(`agent-${index}`, beatOf("x"), 1_000 + index);
  const { rows } = table.snapshot(null, 5_000);
  t.is(rows?.length, MAX_ROWS);
  t.false(rows?.some(({ name }) => name === "agent-0"));
  t.true(rows?.some(({ name }) => name === `agent-${MAX_ROWS}`));
});
