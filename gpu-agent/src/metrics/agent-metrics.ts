/**
 * The agent's metrics as a whole: what is counted when it happens, what is read from the pool when somebody scrapes, and the text of
 * both. It changes nothing that it looks at.
 */
import { Registry } from "prom-client";
import type { Engine } from "../replicas/engine.ts";
import type { Replica, ReplicaState } from "../replicas/replica.ts";
import type { UsageFigures } from "../usage/usage-figures.ts";
import { createInstruments, type Instruments, NO_REPLICA } from "./instruments.ts";
import { meterRequest, type RequestMeter } from "./request-meter.ts";

/** What is read at each scrape. */
export interface MetricsSource {
  readonly replicas: readonly Replica[];
  /** Turns that wait for whichever replica comes first. */
  readonly queued?: () => number;
  /** Undefined where no usage is recorded. */
  readonly usage?: () => UsageFigures | undefined;
}

export class AgentMetrics {
  readonly contentType: string;
  readonly #registry = new Registry();
  readonly #instruments: Instruments;
  /** Tokens that the running turns of each replica hold in its KV cache. */
  readonly #heldTokens: number[];
  readonly #shownStates: (ReplicaState | undefined)[];
  /** What of a counter that its owner keeps was counted already: heals by replica, dropped lines by incarnation, rejected records. */
  readonly #seenHeals: number[];
  #seenRejected = 0;
  readonly #seenDropped = new WeakMap<Engine, number>();
  #source: MetricsSource = { replicas: [] };

  /** For so many replicas of this model. */
  constructor(replicas: number, model: string) {
    this.contentType = this.#registry.contentType;
    this.#instruments = createInstruments(this.#registry, replicas, model);
    this.#heldTokens = Array.from({ length: replicas }, () => 0);
    this.#shownStates = Array.from({ length: replicas });
    this.#seenHeals = Array.from({ length: replicas }, () => 0);
  }

  /** From now on scrapes read these replicas, of which there are as many as the constructor was told. */
  watch(source: MetricsSource): void {
    this.#source = source;
  }

  /** A meter for one request that arrived at `startedMs` and enters the queue now, both on the clock of `performance.now`. */
  request(startedMs: number): RequestMeter {
    return meterRequest(this.#instruments, this.#heldTokens, startedMs, () => performance.now());
  }

  /** A replica changed its state. Its incarnation may be gone at the next scrape, so its last lines are counted here. */
  replicaChanged(index: number, state: ReplicaState): void {
    if (state === "poisoned") this.#instruments.replicas[index]?.poisonings.inc();
    const replica = this.#source.replicas[index];
    if (replica !== undefined) this.#count(replica);
  }

  /** A request was answered; `route` must be one of a fixed set. */
  answered(route: string, status: number): void {
    this.#instruments.responses.inc({ route, status: String(status) });
  }

  /** Usage records could not be delivered; `code` is a deliveryErrorCode. */
  deliveryFailed(code: string): void {
    this.#instruments.usageFailures.inc({ code });
  }

  /** Everything in Prometheus' text format. */
  text(): Promise<string> {
    this.#lookAtUsage();
    this.#instruments.waiting.set({ replica: NO_REPLICA }, this.#source.queued?.() ?? 0);
    for (const replica of this.#source.replicas) {
      this.#count(replica);
      this.#look(replica);
    }
    return this.#registry.metrics();
  }

  #count({ index, heals, engine }: Replica): void {
    const instruments = this.#instruments.replicas[index];
    instruments?.heals.inc(heals - (this.#seenHeals[index] ?? 0));
    this.#seenHeals[index] = heals;
    if (engine === undefined) return;
    const dropped = engine.droppedLines;
    instruments?.droppedLines.inc(dropped - (this.#seenDropped.get(engine) ?? 0));
    this.#seenDropped.set(engine, dropped);
  }

  #lookAtUsage(): void {
    const { backlog, rejected } = this.#source.usage?.() ?? { backlog: 0, rejected: 0 };
    this.#instruments.usageBacklog.set(backlog);
    this.#instruments.usageRejected.inc(rejected - this.#seenRejected);
    this.#seenRejected = rejected;
  }

  #look({ index, inflight, engine, state }: Replica): void {
    const { running, waiting, kvCacheUsage, up, state: states } = this.#instruments;
    const replica = String(index);
    const inQueue = engine?.leases.waiting ?? 0;
    const capacity = (engine?.leases.slots ?? 0) * (engine?.info?.maxContext ?? 0);
    running.set({ replica }, Math.max(0, inflight - inQueue));
    waiting.set({ replica }, inQueue);
    kvCacheUsage.set({ replica }, capacity === 0 ? 0 : (this.#heldTokens[index] ?? 0) / capacity);
    up.set({ replica }, engine?.usable ? 1 : 0);
    const shown = this.#shownStates[index];
    if (shown !== undefined) states.set({ replica, state: shown }, 0);
    states.set({ replica, state }, 1);
    this.#shownStates[index] = state;
  }
}
