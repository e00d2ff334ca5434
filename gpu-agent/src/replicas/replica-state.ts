/**
 * The life of a replica as one typed machine: states, events, and which event leads where. Pure; replica.ts drives it, and status, log
 * and metrics show it.
 *
 * Turns are absent but for `busy`, which is derived from the leases and never stored: a lease comes and goes without an event here.
 */

/** States that the machine holds. */
export type LifeState =
  /** A process was spawned and is not READY. */
  | "starting"
  | "ready"
  /** One slot is stuck: nothing new is admitted, the others may finish within their grace. */
  | "quarantined"
  /** The agent ends: what runs may finish, nothing is started again. */
  | "draining"
  /** The engine is lost and its process is being killed. */
  | "poisoned"
  /** It cools down before its next start. */
  | "healing"
  /** It will not be started again. */
  | "dead"
  /** Its process outlived SIGKILL; its devices are not used again. */
  | "abandoned";

/** What is shown: a ready replica without a free lease is `busy`. */
export type ReplicaState = LifeState | "busy";

export type LifeEvent =
  /** A process is spawned. */
  | "spawn"
  /** It said READY. */
  | "ready"
  /** A slot is stuck while others run. */
  | "stuck"
  /** A READY engine is no longer to be trusted. */
  | "lost"
  /** Its process is gone, and another start is due after a pause. */
  | "cool"
  /** Its process outlived SIGKILL. */
  | "outlived"
  /** The agent ends. */
  | "drain"
  /** No process is left and none will be started. */
  | "end";

const moves: Readonly<Record<LifeState, Partial<Record<LifeEvent, LifeState>>>> = {
  starting: { ready: "ready", cool: "healing", outlived: "abandoned", drain: "draining", end: "dead" },
  ready: { stuck: "quarantined", lost: "poisoned", drain: "draining" },
  quarantined: { stuck: "quarantined", lost: "poisoned", drain: "draining" },
  poisoned: { cool: "healing", outlived: "abandoned", drain: "draining", end: "dead" },
  healing: { spawn: "starting", drain: "draining", end: "dead" },
  // What still happens to the last process changes nothing but its end.
  draining: {
    ready: "draining",
    stuck: "draining",
    lost: "draining",
    outlived: "abandoned",
    drain: "draining",
    end: "dead",
  },
  dead: { drain: "dead", end: "dead" },
  abandoned: { drain: "abandoned", end: "abandoned" },
};

/** Where an event leads; undefined for one that cannot happen in this state. */
export const moveOf = (state: LifeState, event: LifeEvent): LifeState | undefined => moves[state][event];

/** As `moveOf`, but an event that cannot happen is a bug of the caller and throws. */
export const nextState = (state: LifeState, event: LifeEvent): LifeState => {
  const next = moveOf(state, event);
  if (next === undefined) throw new Error(`a replica that is ${state} cannot take the event ${event}`);
  return next;
};

/** What is shown for a state while so many leases are free. */
export const shownState = (state: LifeState, freeLeases: number): ReplicaState =>
  state === "ready" && freeLeases === 0 ? "busy" : state;
