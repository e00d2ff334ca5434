/**
 * Work on a list with a bound on how much of it is under way at once. Pure: the work is passed in.
 */

/** Runs `work` on each item, at most `limit` at once, and gives the results in order. Rejects with the first failure, and starts nothing after it. */
export const boundedParallel = async <Item, Result>(
  items: readonly Item[],
  limit: number,
  work: (item: Item) => Promise<Result>,
): Promise<Result[]> => {
  const results: Result[] = [];
  let next = 0;
  let failed = false;
  const lane = async (): Promise<void> => {
    while (next < items.length && !failed) {
      const at = next++;
      try {
        results[at] = await work(items[at] as Item);
      } catch (error) {
        failed = true;
        throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, lane));
  return results;
};
