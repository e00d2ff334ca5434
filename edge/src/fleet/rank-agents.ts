/**
 * Which agents a request is tried at, in which order. Pure: it decides from one snapshot of the fleet and what this isolate knows by itself.
 *
 * The order: agents that are known to be well and have a free slot, then those where it would wait, then, as a last resort, those that have
 * been silent for too long: an agent in a long prefill beats late, and late is not dead. Within the first, the agent that the conversation
 * was at before comes first (its prefix cache holds it), unless that agent already has more than its share (bounded load). Nobody is asked
 * who said that it takes no turns, is disabled, is behind an open breaker or is known not to have the model.
 */
import { DEFAULT_MODEL_NAME, type Heartbeat } from "@lockgate/shared-types";
import type { BreakerState } from "./breaker.ts";
import type { AgentOverride } from "./fleet-table.ts";
import { hashOf, rendezvousScore } from "./rendezvous.ts";

/** A heartbeat this old says nothing any more: three intervals of 5 s. */
export const HEARTBEAT_STALE_MS = 15_000;
/** An agent may have this much more than its share of the load before a conversation goes elsewhere. */
export const LOAD_FACTOR = 1.25;

/** One agent as it is seen now. */
export interface AgentView {
  readonly name: string;
  /** The configured one, or the operator's. */
  readonly weight: number;
  /** Models of the configuration; undefined: not known. */
  readonly models: readonly string[] | undefined;
  readonly override: AgentOverride;
  /** Undefined for one that never beat. */
  readonly heartbeat: Heartbeat | undefined;
  /** Ms since the heartbeat came. */
  readonly beatAgeMs: number;
  /** Requests that this isolate has under way there. */
  readonly ownInflight: number;
  readonly breaker: BreakerState;
}

/** What agents are ranked for. */
export interface RankedRequest {
  /** The model to be dispatched; undefined where none is (a list of models). */
  readonly model: string | undefined;
  /** Same for all requests of one conversation. */
  readonly affinity: string;
}

export interface RankedAgent {
  readonly name: string;
  /** Whether a turn would start at once, as far as is known. */
  readonly free: boolean;
}

export type Ranking =
  | { readonly kind: "ranked"; readonly agents: readonly RankedAgent[] }
  /** All agents are known, and none has the model. */
  | { readonly kind: "no_such_model" }
  /** None takes a turn now. */
  | { readonly kind: "none_ready" };

const refusing: ReadonlySet<Heartbeat["state"]> = new Set(["starting", "unavailable", "draining", "overloaded"]);

const isStale = ({ heartbeat, beatAgeMs }: AgentView, staleMs: number): boolean =>
  heartbeat !== undefined && beatAgeMs > staleMs;

/** The models that an agent is known to have; undefined: not known. What it says itself counts more than the configuration. */
export const modelsOf = ({ heartbeat, models }: AgentView): readonly string[] | undefined =>
  heartbeat?.models ?? models;

/** Whether an agent may be asked at all, whatever the model. */
export const isRoutable = (agent: AgentView, staleMs: number): boolean => {
  if (agent.override.disabled || agent.breaker === "open") return false;
  if (agent.heartbeat === undefined || isStale(agent, staleMs)) return true;
  return !refusing.has(agent.heartbeat.state);
};

interface Candidate {
  readonly name: string;
  readonly stale: boolean;
  readonly load: number;
  readonly slots: number;
  /** Share of the fleet's work that it should have, relative to the others. */
  readonly capacity: number;
  readonly score: number;
}

const mean = (numbers: readonly number[], otherwise: number): number =>
  numbers.length === 0 ? otherwise : numbers.reduce((sum, number) => sum + number, 0) / numbers.length;

const candidatesOf = (agents: readonly AgentView[], affinity: string, staleMs: number): Candidate[] => {
  const key = hashOf(affinity);
  const slotsOf = ({ heartbeat }: AgentView): number | undefined =>
    heartbeat?.replicas.reduce((sum, { slots }) => sum + slots, 0) || undefined;
  // Of what is not known of one the others' mean is assumed.
  const usualSlots = mean(
    agents.flatMap((agent) => slotsOf(agent) ?? []),
    1,
  );
  const usualSpeed = mean(
    agents.flatMap(({ heartbeat }) => heartbeat?.tokens_per_second || []),
    1,
  );
  return agents.map((agent) => {
    const { name, weight, heartbeat, ownInflight } = agent;
    const slots = slotsOf(agent) ?? usualSlots;
    return {
      name,
      stale: isStale(agent, staleMs),
      // The heartbeat is older than what this isolate has sent since, and knows of what others have.
      load: Math.max(heartbeat?.inflight ?? 0, ownInflight),
      slots: heartbeat === undefined ? Number.POSITIVE_INFINITY : slots,
      capacity: weight * slots * (heartbeat?.tokens_per_second || usualSpeed),
      score: rendezvousScore(key, name, weight),
    };
  });
};

/** Free slots by what the agent says: one that is quarantined has slots and none is free. */
const isFree = (candidate: Candidate, heartbeat: Heartbeat | undefined, ownInflight: number): boolean => {
  if (heartbeat === undefined) return true;
  const takenSince = Math.max(0, ownInflight - heartbeat.inflight);
  return heartbeat.waiting === 0 && heartbeat.free_slots > takenSince && candidate.load < candidate.slots;
};

/** Ranks `agents`; one is never named twice. `staleMs` is HEARTBEAT_STALE_MS but for tests. */
export const rankAgents = (
  agents: readonly AgentView[],
  { model, affinity }: RankedRequest,
  staleMs: number = HEARTBEAT_STALE_MS,
): Ranking => {
  const isAny = model === undefined || model === DEFAULT_MODEL_NAME;
  /** Undefined: not known. */
  const serves = (agent: AgentView): boolean | undefined => isAny || modelsOf(agent)?.includes(model);
  const serving = agents.filter((agent) => serves(agent) !== false);
  if (serving.length === 0) return { kind: agents.length === 0 ? "none_ready" : "no_such_model" };
  const routable = serving.filter((agent) => isRoutable(agent, staleMs));
  if (routable.length === 0) return { kind: "none_ready" };

  const isSomebodyKnown = serving.some((agent) => serves(agent) === true);
  const views = new Map(routable.map((agent) => [agent.name, agent] as const));
  const candidates = candidatesOf(routable, affinity, staleMs).sort((a, b) => b.score - a.score);
  const fresh = candidates.filter(({ stale }) => !stale);
  const totalLoad = fresh.reduce((sum, { load }) => sum + load, 0);
  const totalCapacity = fresh.reduce((sum, { capacity }) => sum + capacity, 0);
  const isWithinBound = ({ load, capacity }: Candidate): boolean =>
    load + 1 <= Math.ceil((LOAD_FACTOR * (totalLoad + 1) * capacity) / totalCapacity);
  const free = (candidate: Candidate): boolean => {
    const view = views.get(candidate.name);
    return view !== undefined && isFree(candidate, view.heartbeat, view.ownInflight);
  };
  // Who may or may not have the model is asked after those that are known to have it.
  const isGuess = ({ name }: Candidate): boolean => {
    const view = views.get(name);
    return isSomebodyKnown && view !== undefined && serves(view) === undefined;
  };
  const byLoad = (a: Candidate, b: Candidate): number => (a.load + 1) / a.capacity - (b.load + 1) / b.capacity;

  // Sorting is stable: what a tier does not tell apart stays in the order of the scores.
  const tiers = [
    fresh.filter((candidate) => free(candidate) && isWithinBound(candidate)),
    fresh.filter((candidate) => free(candidate) && !isWithinBound(candidate)).sort(byLoad),
    fresh.filter((candidate) => !free(candidate)).sort(byLoad),
    candidates.filter(({ stale }) => stale),
  ];
  const ordered = tiers.flat();
  return {
    kind: "ranked",
    agents: [...ordered.filter((candidate) => !isGuess(candidate)), ...ordered.filter(isGuess)].map((candidate) => ({
      name: candidate.name,
      free: !candidate.stale && free(candidate),
    })),
  };
};
