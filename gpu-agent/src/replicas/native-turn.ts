/**
 * The child generator: one native turn on one lane, from GEN to its DONE, ERR or EOF. Shared by every ownership scheme; what the schemes
 * differ in is when the lane passes on, and that is not decided here.
 *
 * Whoever stops early (return, throw, an aborted signal) causes STOP once and a drain to DONE within a bounded allowance. An engine that
 * does not come back is given up, and the cleanup throws EngineSilent only when its process is gone.
 */
import type { DoneStatistics } from "@lockgate/shared-types";
import type { Engine } from "./engine.ts";
import { EngineLost, EngineRefused, EngineSilent } from "./errors.ts";
import type { Lane } from "./lane.ts";
import { type EngineRequest, formatGenerate, formatStop } from "./wire.ts";

export interface NativeTurnOptions {
  readonly engine: Engine;
  readonly slot: number;
  /** Number of the turn, unique among all turns of the agent. */
  readonly turn: number;
  readonly request: EngineRequest;
  /** Reaches the read of the pipe, which `return()` alone does not. */
  readonly signal: AbortSignal;
  /** The turn's own DONE, as soon as it was read, while the lane is still owned. Called at most once. */
  readonly onDone: (statistics: DoneStatistics) => void;
}

/** Waits on a lane with a deadline that moves; the timer is armed once and looks again when it fires. */
class Deadline {
  readonly #engine: Engine;
  readonly #lane: Lane;
  #dueMs = 0;
  #timer: { cancel(): void } | undefined;

  constructor(engine: Engine, lane: Lane) {
    this.#engine = engine;
    this.#lane = lane;
  }

  /** Waits for something new or until the time; returns whether the time is over. */
  async over(dueMs: number): Promise<boolean> {
    const { clock } = this.#engine;
    if (clock.now() >= dueMs) return true;
    if (this.#timer === undefined || dueMs < this.#dueMs) {
      this.#timer?.cancel();
      this.#dueMs = dueMs;
      this.#timer = clock.after(dueMs - clock.now(), () => {
        this.#timer = undefined;
        this.#lane.wake();
      });
    }
    await this.#lane.wait();
    return false;
  }

  cancel(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }
}

/**
 * Yields the turn's token ids in runs, at least one a run, and returns at DONE.
 * Throws EngineRefused (ERR), EngineLost (EOF), EngineSilent (no line in time; the engine is poisoned by then).
 */
export async function* generateNative(options: NativeTurnOptions): AsyncGenerator<readonly number[], void, void> {
  const { engine, slot, turn, request, signal, onDone } = options;
  if (signal.aborted) return;
  const { limits, clock } = engine;
  const lane = engine.lane(slot);
  const address = engine.address(slot, turn);
  const deadline = new Deadline(engine, lane);
  const onAbort = () => lane.wake();
  signal.addEventListener("abort", onAbort);
  lane.begin(turn, request.maxTokens, clock.now());
  engine.process.write(formatGenerate(request, address));

  let over = false;
  const giveUp = async (what: string): Promise<never> => {
    over = true;
    const reason = `${what} (turn ${turn})`;
    await engine.quarantine(lane, reason);
    throw new EngineSilent(reason);
  };
  const patienceMs = () => Math.max(limits.silenceMs, 3 * lane.lastChunkMs);

  try {
    while (!signal.aborted) {
      const item = lane.take();
      if (item === null) {
        if (await deadline.over(lane.lastLineMs + patienceMs())) await giveUp("no line within the silence limit");
      } else if ("kind" in item) {
        if (item.kind === "done") {
          over = true;
          onDone(item.statistics);
          return;
        }
        if (item.kind === "error") {
          over = true;
          throw new EngineRefused(item.message);
        }
        if (item.kind === "eof") {
          over = true;
          throw new EngineLost(item.reason);
        }
      } else {
        yield item;
      }
    }
  } finally {
    try {
      if (!over) await drain();
    } finally {
      deadline.cancel();
      signal.removeEventListener("abort", onAbort);
    }
  }

  async function drain(): Promise<void> {
    let dueMs = clock.now() + limits.drainMs;
    // A DONE that the pump has read already ends the turn: a STOP now would be late.
    if (lane.running && engine.info?.capabilities.stop) engine.process.write(formatStop(address));
    for (;;) {
      const item = lane.take();
      if (item === null) {
        if (await deadline.over(dueMs)) await giveUp("no DONE within the drain allowance");
      } else if ("kind" in item) {
        if (item.kind === "done") return onDone(item.statistics);
        if (item.kind === "error") return;
        if (item.kind === "eof") throw new EngineLost(item.reason);
        if (item.kind === "prefill") dueMs = Math.max(dueMs, clock.now() + patienceMs());
      } else if (!engine.info?.capabilities.stop) {
        // Cannot be stopped: it may run to its maxTokens, which the lane bounds.
        dueMs = Math.max(dueMs, clock.now() + limits.drainMs);
      }
    }
  }
}
