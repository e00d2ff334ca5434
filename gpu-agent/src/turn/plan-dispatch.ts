/**
 * Which waiting turns can go now, and where: a pure decision over the queue and the replicas.
 *
 * Every turn waits for the replica where it costs least, counting those that run there and those ahead of it that want the same one. So a
 * turn may wait for a busy replica that holds its prompt while a later one goes to an idle replica; two that want the same replica keep
 * their order.
 */
import { type Candidate, chooseReplica } from "../replicas/choose-replica.ts";

export interface ReplicaView {
  readonly index: number;
  readonly slots: number;
  /** Leases that could be taken now. */
  readonly free: number;
  /** Turns admitted there and not settled. */
  readonly running: number;
  readonly lastTurn: number;
}

export interface WaitingTurn {
  /** Prompt tokens that this replica would have to read again. */
  readonly rereadTokens: (replica: number) => number;
}

export interface Grant {
  /** Position in the queue that was passed in. */
  readonly waiter: number;
  readonly replica: number;
}

/** The grants, in the order of the queue. */
export const planDispatch = (waiters: readonly WaitingTurn[], replicas: readonly ReplicaView[]): readonly Grant[] => {
  const grants: Grant[] = [];
  const ahead = new Map<number, number>();
  const free = new Map(replicas.map((replica) => [replica.index, replica.free]));
  let freeInAll = replicas.reduce((sum, replica) => sum + replica.free, 0);
  for (const [waiter, { rereadTokens }] of waiters.entries()) {
    if (freeInAll === 0) break;
    const candidates = replicas.map(
      ({ index, slots, running, lastTurn }): Candidate => ({
        index,
        rereadTokens: rereadTokens(index),
        load: (running + (ahead.get(index) ?? 0)) / slots,
        lastTurn,
      }),
    );
    const replica = chooseReplica(candidates);
    if (replica === null) break;
    ahead.set(replica, (ahead.get(replica) ?? 0) + 1);
    const left = free.get(replica) ?? 0;
    if (left === 0) continue;
    free.set(replica, left - 1);
    freeInAll--;
    grants.push({ waiter, replica });
  }
  return grants;
};
