import test from "ava";
import fc from "fast-check";
import {
  type AgentView,
  HEARTBEAT_STALE_MS,
  LOAD_FACTOR,
  type Ranking,
  rankAgents,
} from "../../edge/src/fleet/rank-agents.ts";
import { resolveModel } from "../../edge/src/fleet/resolve-model.ts";
import { beatOf, viewOf } from "../helpers/fleet-agents.ts";

const request = { model: "atlas", affinity: "key conversation" };
const namesOf = (ranking: Ranking): string[] =>
  ranking.kind === "ranked" ? ranking.agents.map(({ name }) => name) : [ranking.kind];
const rank = (agents: readonly AgentView[], affinity = request.affinity) =>
  namesOf(rankAgents(agents, { ...request, affinity }));

const seed = Number(process.env.LOCKGATE_SEED ?? Date.now());
const fleetOf = (count: number, rest: Partial<AgentView> = {}) =>
  Array.from({ length: count }, (_, index) => viewOf(`gpu-${index}`, rest));

test("no agents, or none that takes a turn, is not the same as none that has the model", (t) => {
  t.deepEqual(rank([]), ["none_ready"]);
  t.deepEqual(rank([viewOf("a", { breaker: "open" })]), ["none_ready"]);
  t.deepEqual(rank([viewOf("a", { heartbeat: beatOf("a", { models: ["b"] }) })]), ["no_such_model"]);
  t.deepEqual(rank([viewOf("a", { heartbeat: undefined, models: ["b"] })]), ["no_such_model"]);
});

test("an agent that drains, starts, is unavailable, overloaded, disabled or behind an open breaker gets no turn", (t) => {
  const states = ["starting", "unavailable", "draining", "overloaded"] as const;
  for (const state of states)
    t.deepEqual(rank([viewOf("a", { heartbeat: beatOf("a", { state }) }), viewOf("b")]), ["b"]);
  t.deepEqual(rank([viewOf("a", { override: { disabled: true, weight: null } }), viewOf("b")]), ["b"]);
  t.deepEqual(rank([viewOf("a", { breaker: "open" }), viewOf("b")]), ["b"]);
});

test("an agent that never beat is routable by configuration alone, for any model that it is not known to lack", (t) => {
  t.deepEqual(rank([viewOf("a", { heartbeat: undefined })]), ["a"]);
  t.deepEqual(rank([viewOf("a", { heartbeat: undefined, models: ["atlas"] })]), ["a"]);
});

test("an agent that may or may not have the model is asked after those that are known to have it", (t) => {
  const guess = viewOf("guess", { heartbeat: undefined });
  const stale = viewOf("stale", { beatAgeMs: HEARTBEAT_STALE_MS + 1 });
  for (const affinity of ["a", "b", "c", "d", "e"]) t.deepEqual(rank([guess, stale], affinity), ["stale", "guess"]);
  t.deepEqual(rank([guess, viewOf("gone", { breaker: "open" })]), ["guess"]);
});

test("the name default is no model that an agent could lack", (t) => {
  const agents = [viewOf("a", { heartbeat: beatOf("a", { models: [] }) })];
  t.deepEqual(namesOf(rankAgents(agents, { ...request, model: "default" })), ["a"]);
});

test("what an agent says it has counts more than the configuration", (t) => {
  t.deepEqual(rank([viewOf("a", { models: ["atlas"], heartbeat: beatOf("a", { models: ["b"] }) })]), ["no_such_model"]);
});

test("field report 24: an agent that was silent for 30 s with work in flight stays routable, as the last resort", (t) => {
  const silent = viewOf("silent", { heartbeat: beatOf("silent", { free: 3 }), beatAgeMs: 30_000 });
  t.deepEqual(rank([silent]), ["silent"]);
  t.deepEqual(rank([silent, viewOf("full", { heartbeat: beatOf("full", { free: 0 }) })]), ["full", "silent"]);
});

test("a heartbeat at the age bound still counts, one above it is the last resort whatever it said", (t) => {
  const draining = (beatAgeMs: number) =>
    rank([viewOf("a", { heartbeat: beatOf("a", { state: "draining" }), beatAgeMs }), viewOf("b")]);
  t.deepEqual(draining(HEARTBEAT_STALE_MS), ["b"]);
  t.deepEqual(draining(HEARTBEAT_STALE_MS + 1), ["b", "a"]);
});

test("an agent with a free slot goes before one where the turn would wait, and the shorter wait before the longer", (t) => {
  const agents = [
    viewOf("long", { heartbeat: beatOf("long", { free: 0, inflight: 12, waiting: 8 }) }),
    viewOf("short", { heartbeat: beatOf("short", { free: 0, inflight: 5, waiting: 1 }) }),
    viewOf("free", { heartbeat: beatOf("free", { free: 1 }) }),
  ];
  for (let conversation = 0; conversation < 50; conversation += 1) {
    t.deepEqual(rank(agents, `conversation ${conversation}`), ["free", "short", "long"]);
  }
});

test("of two full agents the one with the faster replicas is asked first", (t) => {
  const full = (name: string, tokens_per_second: number) =>
    viewOf(name, { heartbeat: beatOf(name, { free: 0, tokens_per_second }) });
  t.deepEqual(rank([full("slow", 10), full("fast", 100)]), ["fast", "slow"]);
});

test("slots of a quarantined replica are no free slots", (t) => {
  const quarantined = viewOf("a", { heartbeat: beatOf("a", { slots: 4, free: 0, inflight: 0 }) });
  const ranking = rankAgents([quarantined], request);
  t.deepEqual(ranking, { kind: "ranked", agents: [{ name: "a", free: false }] });
});

test("what this isolate has sent since the heartbeat takes its slots", (t) => {
  const isFree = (ownInflight: number) => {
    const ranking = rankAgents([viewOf("a", { ownInflight })], request);
    return ranking.kind === "ranked" && ranking.agents[0]?.free;
  };
  t.true(isFree(3));
  t.false(isFree(4));
});

test("a conversation stays on its agent while others come and go", (t) => {
  t.log(`LOCKGATE_SEED=${seed}`);
  fc.assert(
    fc.property(fc.string(), fc.integer({ min: 2, max: 12 }), fc.nat(), (conversation, count, gone) => {
      const agents = fleetOf(count);
      const [home] = rank(agents, conversation);
      const others = agents.filter(({ name }) => name !== home);
      const leaver = others[gone % others.length];
      return (
        rank(agents.toReversed(), conversation)[0] === home &&
        rank(
          agents.filter((agent) => agent !== leaver),
          conversation,
        )[0] === home
      );
    }),
    { seed },
  );
  t.pass();
});

test("conversations spread over idle agents as their weights", (t) => {
  const agents = [viewOf("one", { weight: 1 }), viewOf("two", { weight: 2 }), viewOf("five", { weight: 5 })];
  const won = new Map<string, number>();
  const total = 8_000;
  for (let conversation = 0; conversation < total; conversation += 1) {
    const [name = ""] = rank(agents, `conversation ${conversation}`);
    won.set(name, (won.get(name) ?? 0) + 1);
  }
  for (const { name, weight } of agents) {
    const share = (won.get(name) ?? 0) / total;
    t.true(Math.abs(share - weight / 8) < 0.02, `${name} has ${share}`);
  }
});

test("one conversation's many requests at once spread: nobody gets more than the bound on its share", (t) => {
  t.log(`LOCKGATE_SEED=${seed}`);
  fc.assert(
    fc.property(
      fc.string(),
      fc.integer({ min: 2, max: 8 }),
      fc.integer({ min: 1, max: 60 }),
      (conversation, count, requests) => {
        const sent = new Map<string, number>();
        for (let index = 0; index < requests; index += 1) {
          const agents = fleetOf(count).map((agent) => ({
            ...agent,
            heartbeat: beatOf(agent.name, { slots: 64 }),
            ownInflight: sent.get(agent.name) ?? 0,
          }));
          const [name = ""] = rank(agents, conversation);
          sent.set(name, (sent.get(name) ?? 0) + 1);
        }
        return Math.max(...sent.values()) <= Math.ceil((LOAD_FACTOR * requests) / count);
      },
    ),
    { seed, numRuns: 60 },
  );
  t.pass();
});

test("every ranking names each agent at most once, and none that may not be asked", (t) => {
  t.log(`LOCKGATE_SEED=${seed}`);
  const view = fc.record({
    state: fc.constantFrom("ready", "starting", "draining", "unavailable", "overloaded", undefined),
    model: fc.constantFrom("atlas", "other"),
    slots: fc.nat(8),
    free: fc.nat(8),
    inflight: fc.nat(100),
    waiting: fc.nat(50),
    speed: fc.constantFrom(null, 0, 1, 5_000),
    beatAgeMs: fc.constantFrom(0, HEARTBEAT_STALE_MS, HEARTBEAT_STALE_MS + 1, 1e9),
    ownInflight: fc.nat(50),
    weight: fc.constantFrom(0.001, 1, 1000),
    disabled: fc.boolean(),
    breaker: fc.constantFrom("closed", "half-open", "open"),
  });
  fc.assert(
    fc.property(fc.array(view, { maxLength: 10 }), fc.string(), (specs, affinity) => {
      const agents = specs.map((spec, index): AgentView => {
        const name = `gpu-${index}`;
        const { state, model, slots, free, inflight, waiting, speed } = spec;
        const heartbeat =
          state && beatOf(name, { state, models: [model], slots, free, inflight, waiting, tokens_per_second: speed });
        return viewOf(name, {
          heartbeat,
          beatAgeMs: spec.beatAgeMs,
          ownInflight: spec.ownInflight,
          weight: spec.weight,
          override: { disabled: spec.disabled, weight: null },
          breaker: spec.breaker,
        });
      });
      const allowed = agents.filter(
        ({ heartbeat, beatAgeMs, override, breaker }) =>
          !override.disabled &&
          breaker !== "open" &&
          (heartbeat?.models.includes("atlas") ?? true) &&
          (heartbeat === undefined || beatAgeMs > HEARTBEAT_STALE_MS || heartbeat.state === "ready"),
      );
      const ranking = rankAgents(agents, { model: "atlas", affinity });
      if (ranking.kind !== "ranked") return allowed.length === 0;
      const named = ranking.agents.map(({ name }) => name);
      return (
        named.toSorted().join() ===
        allowed
          .map(({ name }) => name)
          .toSorted()
          .join()
      );
    }),
    { seed, numRuns: 500 },
  );
  t.pass();
});

test("default is the first model of the first agent that takes turns, and stays default while nothing is known", (t) => {
  const resolve = (asked: string | undefined, agents: readonly AgentView[]) =>
    resolveModel(asked, agents, HEARTBEAT_STALE_MS);
  const beating = (name: string, models: string[], rest: Partial<AgentView> = {}) =>
    viewOf(name, { heartbeat: beatOf(name, { models }), ...rest });
  t.is(resolve("default", [beating("a", ["x", "y"]), beating("b", ["z"])]), "x");
  t.is(resolve("default", [beating("a", ["x"], { breaker: "open" }), beating("b", ["z"])]), "z");
  t.is(resolve("default", [viewOf("a", { heartbeat: undefined, models: ["s"] })]), "s");
  t.is(resolve("default", [viewOf("a", { heartbeat: undefined })]), "default");
  t.is(resolve("default", []), "default");
  t.is(resolve("other", [beating("a", ["x"])]), "other");
});

test("what cannot be a model's name resolves to none", (t) => {
  for (const asked of [undefined, "", "x".repeat(257), "\ud800"]) t.is(resolveModel(asked, [], 1), undefined);
});
