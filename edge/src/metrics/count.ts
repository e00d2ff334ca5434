/**
 * Counts what happens in this isolate, wherever it happens: a request's worker, a key's guard. Handing the counts over is hand-over.ts.
 */
import type { CounterName, counters } from "./catalogue.ts";
import { seriesKey, Unsent } from "./counts.ts";

type Values<Labels> = { readonly [Index in keyof Labels]: string };

let unsent: Unsent | undefined;

/** This isolate's counts. Made with the first use: an isolate that starts has no randomness yet. */
export const isolateCounts = (): Unsent => {
  unsent ??= new Unsent(crypto.randomUUID());
  return unsent;
};

/** Counts one event, or `by` of them; `values` are those of the counter's labels, without spaces. */
export const count = <Name extends CounterName>(
  name: Name,
  values: Values<(typeof counters)[Name]["labels"]>,
  by = 1,
): void => {
  if (by > 0) isolateCounts().add(seriesKey(name, values as readonly string[]), by);
};
