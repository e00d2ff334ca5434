/**
 * The counts of all isolates together, as the Fleet object keeps them, and which breakers the isolates have open. Pure memory: `nowMs` is
 * passed in.
 *
 * They begin at 0 with the object: a counter that starts again is what whoever reads it expects of any process.
 */
import { type CountBatch, type Counts, Sums } from "./counts.ts";

/** Isolates that are remembered; who was silent longest is forgotten first. */
export const MAX_ISOLATES = 1_024;
/** An isolate that was silent for longer is taken for gone. */
export const ISOLATE_SILENT_MS = 300_000;

/** Agents whose breaker is not closed in an isolate, by name: Unix ms until which it is open, half open from then on. */
export type OpenBreakers = Readonly<Record<string, number>>;

/** What an isolate tells the Fleet object with each snapshot that it asks for. */
export interface IsolateReport {
  readonly isolate: string;
  /** Null when nothing has happened. */
  readonly batch: CountBatch | null;
  /** Null from whoever does not know them; what was told before still holds then. */
  readonly breakers: OpenBreakers | null;
}

/** Isolates by agent and state of its breaker. */
export interface BreakerCount {
  readonly agent: string;
  readonly state: "open" | "half_open";
  readonly isolates: number;
}

export interface TotalsView {
  readonly counts: Counts;
  readonly isolates: number;
  readonly breakers: readonly BreakerCount[];
}

interface Known {
  readonly sequence: number;
  readonly heardAtMs: number;
  readonly breakers: OpenBreakers;
}

export class Totals {
  readonly #sums = new Sums();
  /** The one that was heard last stands last. */
  readonly #isolates = new Map<string, Known>();

  take({ isolate, batch, breakers }: IsolateReport, nowMs: number): void {
    const known = this.#isolates.get(isolate);
    const before = known?.sequence ?? 0;
    if (batch !== null && batch.sequence > before) {
      for (const [key, sum] of Object.entries(batch.counts)) this.#sums.add(key, sum);
    }
    this.#isolates.delete(isolate);
    this.#isolates.set(isolate, {
      sequence: Math.max(before, batch?.sequence ?? 0),
      heardAtMs: nowMs,
      breakers: breakers ?? known?.breakers ?? {},
    });
    if (this.#isolates.size <= MAX_ISOLATES) return;
    const [longestSilent] = this.#isolates.keys();
    if (longestSilent !== undefined) this.#isolates.delete(longestSilent);
  }

  view(nowMs: number): TotalsView {
    const heard = [...this.#isolates.values()].filter(({ heardAtMs }) => nowMs - heardAtMs <= ISOLATE_SILENT_MS);
    const counted = new Map<string, BreakerCount>();
    for (const { breakers } of heard) {
      for (const [agent, openUntilMs] of Object.entries(breakers)) {
        const state = nowMs < openUntilMs ? "open" : "half_open";
        const key = `${agent} ${state}`;
        counted.set(key, { agent, state, isolates: (counted.get(key)?.isolates ?? 0) + 1 });
      }
    }
    return {
      counts: Object.fromEntries(this.#sums.entries()),
      isolates: heard.length,
      breakers: [...counted.values()],
    };
  }
}
