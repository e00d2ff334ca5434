/**
 * Counts as they are kept and handed over: how often something has happened since it was last told. Pure.
 *
 * Nothing is lost and nothing counted twice: a batch that may or may not have arrived is told again as it was, under its number, until
 * somebody says that it has; what happens meanwhile waits for the next one. Only what an evicted isolate held is gone.
 */
import type { CounterName } from "./catalogue.ts";

/** Series that are told apart; agents and causes are few, so none is ever near it. */
export const MAX_SERIES = 2_048;

/** A counter's name and the values of its labels, in their order, none of which holds a space. */
export type SeriesKey = string;
export const seriesKey = (name: CounterName, values: readonly string[]): SeriesKey => [name, ...values].join(" ");

export type Counts = Readonly<Record<SeriesKey, number>>;

/** What one isolate tells at once. */
export interface CountBatch {
  /** One more with each batch of an isolate; the same for one that is told again. */
  readonly sequence: number;
  readonly counts: Counts;
}

/** Sums by series, up to MAX_SERIES of them. */
export class Sums {
  readonly #sums = new Map<SeriesKey, number>();

  add(key: SeriesKey, by: number): void {
    const known = this.#sums.get(key);
    if (known !== undefined || this.#sums.size < MAX_SERIES) this.#sums.set(key, (known ?? 0) + by);
    else if (key !== DROPPED) this.#addDropped(by);
  }

  get isEmpty(): boolean {
    return this.#sums.size === 0;
  }

  entries(): [key: SeriesKey, sum: number][] {
    return [...this.#sums];
  }

  clear(): void {
    this.#sums.clear();
  }

  /** Has a place even when there is none. */
  #addDropped(by: number): void {
    this.#sums.set(DROPPED, (this.#sums.get(DROPPED) ?? 0) + by);
  }
}

const DROPPED = seriesKey("series_dropped_total", []);

/** What one isolate has counted and not yet told. */
export class Unsent {
  /** Differs from isolate to isolate. */
  readonly isolate: string;
  readonly #waiting = new Sums();
  #told: CountBatch | undefined;
  #sequence = 0;

  constructor(isolate: string) {
    this.isolate = isolate;
  }

  add(key: SeriesKey, by: number): void {
    this.#waiting.add(key, by);
  }

  /** Whether there is anything to tell. */
  get isEmpty(): boolean {
    return this.#told === undefined && this.#waiting.isEmpty;
  }

  /** What is to be told now: the last batch as long as nobody has taken it. Undefined for nothing. */
  batch(): CountBatch | undefined {
    if (this.#told === undefined && !this.#waiting.isEmpty) {
      this.#sequence += 1;
      this.#told = { sequence: this.#sequence, counts: Object.fromEntries(this.#waiting.entries()) };
      this.#waiting.clear();
    }
    return this.#told;
  }

  /** That batch has arrived. */
  taken({ sequence }: CountBatch): void {
    if (this.#told?.sequence === sequence) this.#told = undefined;
  }
}
