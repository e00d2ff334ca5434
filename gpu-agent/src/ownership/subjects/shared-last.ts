/**
 * Fault 2, as a test subject has it: the last statistics live on the replica, and "is this new?" is decided by comparing the object before
 * and after. Nothing in serving imports this. Batched engines kept theirs per caller in the code that the fault was found in, so here too.
 */
import type { DoneStatistics } from "@lockgate/shared-types";
import type { Admission } from "../../replicas/pool.ts";
import type { Replica } from "../../replicas/replica.ts";

/** What one caller sees of the statistics. */
export interface StatisticsView {
  publish(statistics: DoneStatistics): void;
  /** What the caller takes for its own. */
  read(): DoneStatistics | null;
}

export class SharedLast {
  readonly #ofReplica = new Map<Replica, DoneStatistics>();
  #routed: Replica | undefined;

  /** A turn was routed to its replica. */
  view({ replica, engine }: Admission): StatisticsView {
    if (engine.leases.slots > 1) return ownView();
    const before = this.#last();
    this.#routed = replica;
    return {
      publish: (statistics) => void this.#ofReplica.set(replica, statistics),
      read: () => (this.#last() === before ? null : this.#last()),
    };
  }

  /** "The last statistics": those of the replica that was routed to last. */
  #last(): DoneStatistics | null {
    return this.#routed === undefined ? null : (this.#ofReplica.get(this.#routed) ?? null);
  }
}

const ownView = (): StatisticsView => {
  let own: DoneStatistics | null = null;
  return {
    publish: (statistics) => {
      own = statistics;
    },
    read: () => own,
  };
};
