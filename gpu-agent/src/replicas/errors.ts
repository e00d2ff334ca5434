/** What can go wrong between a turn and its replica, as error classes with a stable code each. */

/** Base of all; `code` is stable, `message` is for logs. */
export abstract class ReplicaError extends Error {
  abstract readonly code: string;
}

/** The engine answered ERR; it is idle again. */
export class EngineRefused extends ReplicaError {
  readonly code = "ENGINE_REFUSED";
}

/** The engine's process or its output ended, or it broke the grammar, while a turn ran or waited. */
export class EngineLost extends ReplicaError {
  readonly code = "ENGINE_LOST";
}

/** The engine did not speak within its allowance and was poisoned. */
export class EngineSilent extends ReplicaError {
  readonly code = "ENGINE_SILENT";
}

/** Every place in the queue of the best replica is taken. */
export class QueueFull extends ReplicaError {
  readonly code = "QUEUE_FULL";
}

/** No replica is alive; it may be healing. */
export class NoReplica extends ReplicaError {
  readonly code = "NO_REPLICA";
}

/** A start failed for a reason that another try cannot mend; `exitCode` is the engine's own. */
export class StartFailed extends ReplicaError {
  readonly code = "START_FAILED";
  readonly exitCode: number;
  constructor(message: string, exitCode: number) {
    super(message);
    this.exitCode = exitCode;
  }
}

/**
 * The error of a cleanup that replaces an earlier one keeps it as `cause`.
 * Returns `cleanup` itself; does nothing when there was no earlier error or a cause is there already.
 */
export const withCause = (cleanup: unknown, earlier: unknown): unknown => {
  if (cleanup instanceof Error && earlier !== undefined && cleanup !== earlier && cleanup.cause === undefined) {
    cleanup.cause = earlier;
  }
  return cleanup;
};
