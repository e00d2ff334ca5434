import test from "ava";
import { NO_OVERRIDE } from "../../edge/src/fleet/fleet-table.ts";
import { counters, fullName, gauges } from "../../edge/src/metrics/catalogue.ts";
import { MAX_SERIES, Sums, seriesKey, Unsent } from "../../edge/src/metrics/counts.ts";
import { exposition } from "../../edge/src/metrics/exposition.ts";
import { type FleetMetrics, familiesOf } from "../../edge/src/metrics/families.ts";
import { routeName, statusClass } from "../../edge/src/metrics/route-name.ts";
import { ISOLATE_SILENT_MS, MAX_ISOLATES, Totals } from "../../edge/src/metrics/totals.ts";
import { beatOf } from "../helpers/fleet-agents.ts";
import { parseScrape } from "../helpers/prometheus.ts";
import { pickSeed, seededRandom } from "../helpers/seeded-random.ts";

const key = seriesKey("refusals_total", ["missing"]);
const nowMs = 1_800_000_000_000;

test("a batch is told again as it was, under its number, until it is taken; what happens meanwhile waits", (t) => {
  const unsent = new Unsent("a");
  t.true(unsent.isEmpty);
  t.is(unsent.batch(), undefined);
  unsent.add(key, 2);
  const first = unsent.batch();
  t.deepEqual(first, { sequence: 1, counts: { [key]: 2 } });
  unsent.add(key, 5);
  t.is(unsent.batch(), first);
  unsent.taken({ sequence: 0, counts: {} });
  t.is(unsent.batch(), first, "an older one's arrival says nothing about it");
  unsent.taken({ sequence: 1, counts: {} });
  t.deepEqual(unsent.batch(), { sequence: 2, counts: { [key]: 5 } });
  unsent.taken({ sequence: 2, counts: {} });
  t.true(unsent.isEmpty);
});

test("whatever calls fail, before or after they did what was asked, every event is counted once", (t) => {
  const seed = pickSeed();
  t.log(`seed ${seed}`);
  const random = seededRandom(seed);
  for (let run = 0; run < 200; run += 1) {
    const totals = new Totals();
    const isolates = ["a", "b", "c"].map((name) => new Unsent(name));
    let events = 0;
    const tell = (unsent: Unsent, fails: boolean, arrives: boolean): void => {
      const batch = unsent.batch() ?? null;
      if (!fails || arrives) totals.take({ isolate: unsent.isolate, batch, breakers: null }, nowMs);
      if (!fails && batch !== null) unsent.taken(batch);
    };
    for (let step = 0; step < 60; step += 1) {
      const unsent = isolates[Math.floor(random() * isolates.length)] as Unsent;
      if (random() < 0.6) {
        unsent.add(key, 1);
        events += 1;
      } else tell(unsent, random() < 0.5, random() < 0.5);
    }
    for (const unsent of isolates) while (!unsent.isEmpty) tell(unsent, false, true);
    t.is(totals.view(nowMs).counts[key] ?? 0, events);
  }
});

test("above MAX_SERIES nothing new is kept, and what is dropped is counted", (t) => {
  const sums = new Sums();
  const name = (at: number) => seriesKey("streams_total", [`agent-${at}`, "complete"]);
  for (let at = 0; at < MAX_SERIES; at += 1) sums.add(name(at), 1);
  sums.add(name(MAX_SERIES), 3);
  sums.add(name(0), 1);
  const kept = new Map(sums.entries());
  t.is(kept.size, MAX_SERIES + 1);
  t.is(kept.get(name(0)), 2);
  t.is(kept.get(name(MAX_SERIES)), undefined);
  t.is(kept.get(seriesKey("series_dropped_total", [])), 3);
});

test("MAX_ISOLATES are remembered, and who was silent longest is forgotten first", (t) => {
  const totals = new Totals();
  const report = (isolate: string) => ({ isolate, batch: null, breakers: null });
  for (let at = 0; at <= MAX_ISOLATES; at += 1) totals.take(report(`isolate-${at}`), nowMs + at);
  t.is(totals.view(nowMs).isolates, MAX_ISOLATES);
  t.is(totals.view(nowMs + ISOLATE_SILENT_MS + 1).isolates, MAX_ISOLATES, "the first of all is not among them");
  t.is(totals.view(nowMs + ISOLATE_SILENT_MS + 2).isolates, MAX_ISOLATES - 1);
});

test("a breaker counts as open up to its time and as half open from then on, until its isolate says otherwise", (t) => {
  const totals = new Totals();
  totals.take({ isolate: "a", batch: null, breakers: { x: nowMs + 5, y: nowMs + 9 } }, nowMs);
  totals.take({ isolate: "b", batch: null, breakers: { x: nowMs + 9 } }, nowMs);
  totals.take({ isolate: "b", batch: null, breakers: null }, nowMs);
  t.deepEqual(totals.view(nowMs + 4).breakers, [
    { agent: "x", state: "open", isolates: 2 },
    { agent: "y", state: "open", isolates: 1 },
  ]);
  t.deepEqual(totals.view(nowMs + 5).breakers, [
    { agent: "x", state: "half_open", isolates: 1 },
    { agent: "y", state: "open", isolates: 1 },
    { agent: "x", state: "open", isolates: 1 },
  ]);
  totals.take({ isolate: "a", batch: null, breakers: {} }, nowMs);
  t.deepEqual(totals.view(nowMs).breakers, [{ agent: "x", state: "open", isolates: 1 }]);
  t.deepEqual(totals.view(nowMs + ISOLATE_SILENT_MS + 1).breakers, []);
});

const metrics = (rest: Partial<FleetMetrics> = {}): FleetMetrics => ({
  counts: {},
  isolates: 1,
  breakers: [],
  nowMs,
  startedAtMs: nowMs - 1000,
  rows: [],
  ...rest,
});
const row = (name: string, ageMs: number, rest = {}) => ({
  name,
  heartbeat: beatOf(name, rest),
  beatAtMs: nowMs - ageMs,
  beats: 1,
  override: NO_OVERRIDE,
});

test("every counter and gauge is described once, in the text format, even before there is a sample of it", (t) => {
  const scrape = parseScrape(exposition(familiesOf(metrics(), [], 15_000)));
  t.deepEqual([...scrape.types], [
    ...Object.keys(counters).map((name) => [fullName(name), "counter"]),
    ...Object.keys(gauges).map((name) => [fullName(name), "gauge"]),
  ] as [string, string][]);
  t.is(scrape.value("lockgate:edge_counters_start_time_seconds"), (nowMs - 1000) / 1000);
});

test("each configured agent shows as it is: by its own word, silent, or stale; one that is not configured does not", (t) => {
  const rows = [
    row("fresh", 15_000, { free: 3, slots: 4, waiting: 2, usage_backlog: 7 }),
    { ...row("old", 15_001), override: { disabled: true, weight: null } },
    { ...row("set", 0), heartbeat: null, beatAtMs: null },
    row("gone", 0),
  ];
  const scrape = parseScrape(exposition(familiesOf(metrics({ rows }), ["fresh", "old", "set", "never"], 15_000)));
  const of = (name: string, agent: string, more = {}) => scrape.value(`lockgate:edge_${name}`, { agent, ...more });
  t.is(of("agent_state", "fresh", { state: "ready" }), 1);
  t.is(of("agent_state", "old", { state: "stale" }), 1);
  t.is(of("agent_state", "set", { state: "silent" }), 1);
  t.is(of("agent_state", "never", { state: "silent" }), 1);
  t.deepEqual(
    ["fresh", "old", "set", "never"].map((agent) => of("agent_disabled", agent)),
    [0, 1, 0, 0],
  );
  t.is(of("agent_heartbeat_age_seconds", "old"), 15.001);
  t.is(of("agent_free_slots", "fresh"), 3);
  t.is(of("agent_waiting_requests", "fresh"), 2);
  t.is(of("agent_usage_backlog_records", "fresh"), 7);
  t.false(scrape.series.some(({ labels }) => labels.agent === "gone"));
});

test("counts come back under their labels; one whose name is gone is left out", (t) => {
  const counts = {
    [seriesKey("responses_total", ["chat", "2xx"])]: 3,
    [seriesKey("leases_expired_total", [])]: 2,
    "a_name_of_another_version x": 9,
  };
  const scrape = parseScrape(exposition(familiesOf(metrics({ counts }), [], 15_000)));
  t.is(scrape.value("lockgate:edge_responses_total", { route: "chat", class: "2xx" }), 3);
  t.is(scrape.value("lockgate:edge_leases_expired_total"), 2);
  t.false(scrape.series.some(({ name }) => name.includes("another")));
});

test("text that would break a line or a label is escaped", (t) => {
  const text = exposition([
    { name: "a", type: "gauge", help: "one\ntwo \\", samples: [{ labels: [["l", 'x"\\\n']], value: 1 }] },
  ]);
  t.is(text, '# HELP a one\\ntwo \\\\\n# TYPE a gauge\na{l="x\\"\\\\\\n"} 1\n');
  t.is(parseScrape(text).value("a", { l: 'x\\"\\\\\\n' }), 1);
});

test("whatever path is asked for, there are few route names", (t) => {
  for (const [path, name] of [
    ["/v1/chat/completions", "chat"],
    ["/v1/models", "models"],
    ["/v1/models/x/y", "models"],
    ["/admin/v1/keys", "admin"],
    ["/admin", "other"],
    ["/metrics", "metrics"],
    ["/healthz", "healthz"],
    ["/internal/v1/heartbeat", "heartbeat"],
    ["/internal/v1/usage", "usage"],
    ["/v1/chat/completions/", "other"],
    ["/", "other"],
    ["", "other"],
  ] as const) {
    t.is(routeName(path), name, path);
  }
  t.is(statusClass(204), "2xx");
  t.is(statusClass(503), "5xx");
});
