/**
 * Which agents a request tries, in which order. Pure: randomness is passed in. It knows no load and no health.
 */

/** The first try and one failover: more would only multiply the load on a fleet that is failing. */
export const MAX_ATTEMPTS = 2;

/**
 * The agents of each attempt, starting at a random one and going round. A single agent is tried again: a connection that it
 * closed while the request was on its way looks like a dead agent, and is not.
 * `random` is in [0, 1). An empty fleet gives an empty list.
 */
export const pickAgents = <T>(agents: readonly T[], random: number): T[] => {
  const first = Math.floor(random * agents.length);
  const picked: T[] = [];
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
    const agent = agents[(first + attempt) % agents.length];
    if (agent !== undefined) picked.push(agent);
  }
  return picked;
};
