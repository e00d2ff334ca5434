/** Order statistics of samples. Pure. */

/** The p-th quantile (0..1) by the nearest rank; NaN of nothing. */
export const quantile = (values: readonly number[], p: number): number => {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil(p * sorted.length) - 1))] ?? Number.NaN;
};

/** What a figure was over the rounds of a run. */
export interface Spread {
  readonly min: number;
  readonly median: number;
  readonly max: number;
}

/** Least, middle and greatest of the values, to so many digits after the point. */
export const spreadOf = (values: readonly number[], digits: number): Spread => ({
  min: rounded(Math.min(...values), digits),
  median: rounded(quantile(values, 0.5), digits),
  max: rounded(Math.max(...values), digits),
});

export const rounded = (value: number, digits: number): number => Number(value.toFixed(digits));

export const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
