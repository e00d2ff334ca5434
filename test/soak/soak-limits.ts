/** Every bound of the soak: how much it asks at once, how long anything may take, and what memory may grow by. Milliseconds unless named otherwise. */

/** Clients that ask one after the other; as many as slots and queue hold, and some of them pipeline, so that a few are refused. */
export const CLIENTS = 12;
/** A client that has not ended by then hangs. The longest honest one waits behind a full queue of whole contexts. */
export const CLIENT_LIMIT_MS = 120_000;
/** Longest pause of a client between two requests. */
export const MAX_THINK_MS = 150;

/** The agent's own limits, short ones, so that they are met. Seconds, as its flags take them. */
export const WRITE_STALL_S = 1.5;
export const STALL_S = 3;
export const DRAIN_S = 60;
export const HEAL_COOLDOWN_S = 0.05;
export const HEARTBEAT_S = 0.2;
export const QUEUE_TURNS = 8;

/** A client that stops reading does so for longer than the agent's write stall. */
export const STALLED_READER_MS = 2_500;
/** Longest break of a reader that goes on. */
export const MAX_READ_PAUSE_MS = 400;

/** The pause before a heal doubles with each loss, so a replica is not lost more often than this in one life of its agent. */
export const MAX_LOSSES_PER_REPLICA = 8;
/** Pauses between two faults, and the longest time that one lasts. */
export const FAULT_PAUSE_MS = { low: 300, high: 3_000 } as const;
export const MAX_EDGE_TROUBLE_MS = 4_000;
export const SHORT_STOP_MS = { low: 100, high: 1_500 } as const;
/** Beyond the agent's stall limit: the replica is killed for it, if it runs a turn. */
export const LONG_STOP_MS = STALL_S * 1_000 + 3_000;

/** From spawn to the ready line; to a state that must come about by itself once nobody asks any more; to an exit. */
export const READY_LIMIT_MS = 60_000;
export const IDLE_LIMIT_MS = 120_000;
export const EXIT_LIMIT_MS = DRAIN_S * 1_000 + 30_000;
export const PROBE_LIMIT_MS = 20_000;
export const POLL_MS = 25;

/** A short life of an agent lasts so long, where time counts. */
export const SHORT_LIFE_MS = { low: 12_000, high: 40_000 } as const;
/** Share of the whole time that goes to short lives; the rest is one long life, in which memory is watched. */
export const SHORT_LIVES_SHARE = 0.4;
/** Clients before the baseline is taken: code is compiled and buffers have grown by then. */
export const WARM_UP_CLIENTS = 150;
/** How often memory is looked at, and a line is printed. */
export const SAMPLE_MS = 3_000;
export const PROGRESS_MS = 5_000;

/** A trend needs so many samples in each quarter. */
export const MIN_SAMPLES_PER_QUARTER = 5;
/** What the heap may hold more, after a collection: the agent's prefix index fills for a while, its nonces are kept for two minutes. */
export const HEAP_ALLOWANCE_BYTES = 12 * 2 ** 20;
/**
 * Resident memory says less: V8 commits more pages in steps, until an agent under load has some 110 MiB more than at its start, and stays there
 * (measured over 4,000 clients of one kind, with the heap as small as before). The heap's figure is the sharp one.
 */
export const AGENT_TREND_ALLOWANCE_BYTES = 64 * 2 ** 20;
export const AGENT_RSS_ALLOWANCE_BYTES = 128 * 2 ** 20;
export const REPLICA_RSS_ALLOWANCE_BYTES = 48 * 2 ** 20;
