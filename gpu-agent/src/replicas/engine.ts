/**
 * One incarnation of an engine: its process, the pump that turns its output into messages on lanes, and the leases of those lanes.
 * It ends for good when the process does; starting another is the replica's job (replica.ts).
 *
 * The pump never waits for a consumer. Poisoning is here because only the incarnation knows when its process is really gone.
 */
import type { Clock } from "./clock.ts";
import { EngineLost, StartFailed } from "./errors.ts";
import { Lane } from "./lane.ts";
import { type HandOver, LeaseQueue } from "./lease-queue.ts";
import type { ReplicaLimits } from "./limits.ts";
import { EngineReader } from "./reader.ts";
import { type Capabilities, type CommandAddress, type EngineMessage, quitLine } from "./wire.ts";

export interface EngineExit {
  readonly code: number | null;
  readonly signal: string | null;
}

/** The process behind an engine, or what stands for it where every event is owned by a test. */
export interface EngineProcess {
  readonly pid: number | undefined;
  /** Queues a command line in order; never throws, also not after the end. */
  write(line: string): void;
  kill(signal: "SIGTERM" | "SIGKILL"): void;
  /** Stops and resumes reading the output; what is not read stays in the pipe. */
  pause(): void;
  resume(): void;
}

/** What a process reports. `output` in order, then `end` (the output closed), `exit` once; end and exit in any order. */
export interface EngineEvents {
  output(chunk: Buffer): void;
  end(): void;
  exit(exit: EngineExit): void;
}

export type SpawnEngine = (events: EngineEvents) => EngineProcess;

export interface EngineInfo {
  readonly maxContext: number;
  readonly capabilities: Capabilities;
  readonly values: ReadonlyMap<string, string | number>;
}

export interface EngineOptions {
  readonly spawn: SpawnEngine;
  readonly clock: Clock;
  readonly limits: ReplicaLimits;
  readonly handOver?: HandOver | undefined;
  /** Told once, when the engine stops being usable, before its process is gone. */
  readonly onLost?: (reason: string) => void;
  /** Told when a slot is stuck while others still run: nothing new is admitted, `onLost` follows. */
  readonly onQuarantine?: (reason: string) => void;
}

export class Engine {
  readonly process: EngineProcess;
  readonly clock: Clock;
  readonly limits: ReplicaLimits;
  /** Resolves at READY; rejects with StartFailed (the process ended by itself) or EngineLost. */
  readonly ready: Promise<EngineInfo>;
  readonly exited: Promise<EngineExit>;
  lanes: readonly Lane[] = [];
  leases: LeaseQueue;
  info: EngineInfo | undefined;

  readonly #options: EngineOptions;
  readonly #ready = Promise.withResolvers<EngineInfo>();
  readonly #exited = Promise.withResolvers<EngineExit>();
  readonly #values = new Map<string, string | number>();
  #lost: string | undefined;
  #gone = false;
  #poisoned: Promise<"gone" | "abandoned"> | undefined;

  constructor(options: EngineOptions) {
    this.#options = options;
    this.clock = options.clock;
    this.limits = options.limits;
    this.ready = this.#ready.promise;
    this.exited = this.#exited.promise;
    this.ready.catch(() => {}); // whoever starts the engine awaits it; a stop before READY must not be an unhandled rejection
    this.leases = new LeaseQueue(0, 0);
    const reader = new EngineReader({
      // A line that loses the engine may have others behind it in the same chunk.
      token: (id, slot, turn) => {
        if (this.#lost === undefined) this.#token(id, slot, turn);
      },
      message: (message) => {
        if (this.#lost === undefined) this.#message(message);
      },
    });
    this.process = options.spawn({
      output: (chunk) => {
        if (this.#lost === undefined) reader.push(chunk);
      },
      end: () => void this.poison("its output ended"),
      exit: (exit) => this.#exit(exit),
    });
  }

  /** True from READY until the first sign that the process is no longer to be trusted; a quarantine is one. */
  get usable(): boolean {
    return this.info !== undefined && !this.leases.closed;
  }

  /** Why it is lost; undefined while it is not. */
  get lostReason(): string | undefined {
    return this.#lost;
  }

  /** Lines that were dropped because they named a turn that does not run. */
  get droppedLines(): number {
    return this.lanes.reduce((sum, lane) => sum + lane.dropped, 0);
  }

  /** The lane behind a leased slot. */
  lane(slot: number): Lane {
    const lane = this.lanes[slot];
    if (lane === undefined) throw new Error(`there is no slot ${slot}`);
    return lane;
  }

  /** How commands for this slot and turn are addressed, as the engine's capabilities have it. */
  address(slot: number, turn: number): CommandAddress {
    const capabilities = this.info?.capabilities;
    return {
      slot: capabilities !== undefined && capabilities.slots > 0 ? slot : undefined,
      turn: capabilities?.turns ? turn : undefined,
    };
  }

  /**
   * Gives the engine up: no new turn, every lane reads `eof`, the process is killed. Idempotent; resolves when the process is gone, or
   * `abandoned` when even SIGKILL did not end it in time.
   */
  poison(reason: string): Promise<"gone" | "abandoned"> {
    this.#lose(reason);
    this.#poisoned ??= this.#kill();
    return this.#poisoned;
  }

  /**
   * Gives up an engine one of whose lanes is stuck: nothing new is admitted, the neighbours may finish within the grace, then it is
   * poisoned. Resolves as `poison` does.
   */
  async quarantine(stuck: Lane, reason: string): Promise<"gone" | "abandoned"> {
    this.leases.close(new EngineLost(reason));
    const neighbours = this.lanes.filter((lane) => lane !== stuck && lane.running);
    if (neighbours.length > 0 && this.#lost === undefined) {
      this.#options.onQuarantine?.(reason);
      const over = Promise.withResolvers<void>();
      const timer = this.clock.after(this.limits.poisonGraceMs, over.resolve);
      await Promise.race([over.promise, this.exited, Promise.all(neighbours.map((lane) => lane.idle()))]);
      timer.cancel();
    }
    return this.poison(reason);
  }

  /** Ends the engine on purpose: QUIT, and a kill if it does not go by itself in time. Turns that still run read `eof`. Idempotent. */
  async quit(): Promise<void> {
    this.#lose("the replica is shutting down");
    this.#poisoned ??= this.#leave();
    await this.#poisoned;
  }

  #lose(reason: string): void {
    if (this.#lost !== undefined) return;
    this.#lost = reason;
    this.leases.close(new EngineLost(reason));
    for (const lane of this.lanes) lane.putMessage({ kind: "eof", reason });
    this.#options.onLost?.(reason);
  }

  async #leave(): Promise<"gone" | "abandoned"> {
    if (!this.#gone) {
      this.process.write(quitLine);
      await this.#exitWithin(this.limits.quitTimeoutMs);
    }
    return this.#kill();
  }

  async #exitWithin(ms: number): Promise<void> {
    const over = Promise.withResolvers<void>();
    const timer = this.clock.after(ms, over.resolve);
    await Promise.race([over.promise, this.exited]);
    timer.cancel();
  }

  async #kill(): Promise<"gone" | "abandoned"> {
    if (!this.#gone) {
      this.process.kill("SIGKILL");
      await this.#exitWithin(this.limits.killTimeoutMs);
    }
    this.#ready.reject(new EngineLost(this.#lost ?? "it was killed"));
    return this.#gone ? "gone" : "abandoned";
  }

  #exit(exit: EngineExit): void {
    this.#gone = true;
    const how = exit.signal === null ? `exit code ${exit.code}` : exit.signal;
    this.#ready.reject(new StartFailed(`it ended before READY (${how})`, exit.code ?? -1));
    this.#lose(`its process ended (${how})`);
    this.#exited.resolve(exit);
  }

  #token(id: number, slot: number, turn: number): void {
    const lane = this.#laneOf(slot);
    if (lane === undefined) return;
    lane.lastLineMs = this.clock.now();
    if (!this.#accepts(lane, turn)) return;
    if (!lane.putToken(id)) this.#break("it sent more tokens than were asked for");
  }

  #message(message: EngineMessage): void {
    switch (message.kind) {
      case "malformed":
        this.#break(`${message.reason}${message.line === "" ? "" : `: ${message.line}`}`);
        return;
      case "unknown":
        for (const lane of this.lanes) lane.lastLineMs = this.clock.now();
        return;
      case "info":
        for (const [key, value] of message.values) this.#values.set(key, value);
        return;
      case "ready":
        this.#becomeReady(message.maxContext, message.capabilities);
        return;
      case "token":
        this.#token(message.id, message.slot, message.turn);
        return;
      default: {
        const lane = this.#laneOf(message.slot);
        if (lane === undefined) return;
        lane.lastLineMs = this.clock.now();
        if (this.#accepts(lane, message.turn)) lane.putMessage(message);
      }
    }
  }

  #becomeReady(maxContext: number, capabilities: Capabilities): void {
    if (this.info !== undefined) {
      this.#break("it said READY twice");
      return;
    }
    const slots = Math.max(1, capabilities.slots);
    this.lanes = Array.from({ length: slots }, () => new Lane());
    this.leases = new LeaseQueue(slots, this.limits.maxWaiting, this.#options.handOver);
    this.info = { maxContext, capabilities, values: this.#values };
    this.#ready.resolve(this.info);
  }

  /** The lane that a line names; undefined, and the engine poisoned, for one that does not exist. */
  #laneOf(slot: number): Lane | undefined {
    const batched = (this.info?.capabilities.slots ?? 0) > 0;
    const lane = batched ? this.lanes[slot] : slot === -1 ? this.lanes[0] : undefined;
    if (lane === undefined)
      this.#break(this.info === undefined ? "a turn's line before READY" : `a line for slot ${slot}`);
    return lane;
  }

  /** Whether the line belongs to the running turn. A foreign tag is dropped and counted; an untagged line that nobody waits for poisons. */
  #accepts(lane: Lane, turn: number): boolean {
    if (this.info?.capabilities.turns && turn === -1) {
      this.#break("an untagged line from an engine that tags");
      return false;
    }
    if (lane.accepts(turn)) return true;
    if (turn === -1) this.#break("a turn's line while no turn runs");
    else lane.dropped++;
    return false;
  }

  #break(reason: string): void {
    void this.poison(`it broke the protocol: ${reason}`);
  }
}
