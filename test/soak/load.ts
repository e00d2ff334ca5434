/** The load of one life: so many clients at a time, each planned from its own seeded random, for a time or for a number of clients. */
import type { AgentLife } from "./agent-life.ts";
import { type ClientPlan, drawClient, intIn } from "./client-plans.ts";
import { judgeAnswers, type SeenTurn } from "./judge-answers.ts";
import { runClient } from "./run-client.ts";
import { CLIENTS, MAX_THINK_MS } from "./soak-limits.ts";

/** How much there is of something. */
export type Extent =
  | { readonly kind: "time"; readonly ms: number }
  | { readonly kind: "clients"; readonly count: number };

/** What all clients saw, over all lives. */
export class Sightings {
  readonly problems: string[] = [];
  readonly seen: SeenTurn[] = [];
  readonly clients = new Map<string, number>();
  readonly outcomes = new Map<string, number>();
  running = 0;

  get ended(): number {
    return this.clients.values().reduce((sum, count) => sum + count, 0);
  }
}

const count = (counts: Map<string, number>, name: string): void => void counts.set(name, (counts.get(name) ?? 0) + 1);

const runOne = async (plan: ClientPlan, life: AgentLife, sightings: Sightings): Promise<void> => {
  sightings.running++;
  const end = await runClient(plan, life);
  sightings.running--;
  const { problems, seen, outcomes } = judgeAnswers(plan, end, life);
  count(sightings.clients, plan.name);
  for (const outcome of outcomes) count(sightings.outcomes, outcome);
  for (const problem of problems) sightings.problems.push(`${life.id}, ${plan.name}: ${problem}`);
  for (const turn of seen) sightings.seen.push(turn);
};

/** Runs these clients one after the other. */
export const runInTurn = async (plans: readonly ClientPlan[], life: AgentLife, sightings: Sightings): Promise<void> => {
  for (const plan of plans) await runOne(plan, life, sightings);
};

export interface Load {
  /** Resolves as soon as no further client begins; others are still under way then. */
  readonly over: Promise<void>;
  /** Resolves when every client has ended. */
  readonly ended: Promise<void>;
}

/** Begins the load; `signal` ends it early. `randomOf` gives each client a random of its own, so that its plans do not depend on the others. */
export const startLoad = (
  life: AgentLife,
  extent: Extent,
  randomOf: (client: number) => () => number,
  sightings: Sightings,
  signal: AbortSignal,
): Load => {
  const over = Promise.withResolvers<void>();
  let left = extent.kind === "clients" ? extent.count : Number.POSITIVE_INFINITY;
  let isOver = false;
  const end = () => {
    isOver = true;
    clearTimeout(timer);
    signal.removeEventListener("abort", end);
    over.resolve();
  };
  const timer = extent.kind === "time" ? setTimeout(end, extent.ms) : undefined;
  if (signal.aborted) end();
  else signal.addEventListener("abort", end);

  const keepAsking = async (random: () => number): Promise<void> => {
    while (!isOver) {
      if (left-- <= 0) return end();
      await runOne(drawClient(random), life, sightings);
      const thinkMs = intIn(random, 0, MAX_THINK_MS);
      if (!isOver) await new Promise((resolve) => setTimeout(resolve, thinkMs));
    }
  };
  const clients = Array.from({ length: CLIENTS }, (_, client) => keepAsking(randomOf(client)));
  return { over: over.promise, ended: Promise.all(clients).then(() => undefined) };
};
