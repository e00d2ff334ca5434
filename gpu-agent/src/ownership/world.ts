/**
 * What a contract runs in: the real pool, replicas, lock, reader and parser, over scripted engines, with a wire that can be waited on and a
 * lock that can be armed. Event-forced throughout; no sleeps.
 */
import type { DoneStatistics } from "@lockgate/shared-types";
import { entryPath } from "../host/host-command.ts";
import { systemClock } from "../replicas/clock.ts";
import type { EngineEvents, EngineProcess, SpawnEngine } from "../replicas/engine.ts";
import { spawnEngineProcess } from "../replicas/engine-process.ts";
import { defaultReplicaLimits } from "../replicas/limits.ts";
import type { OpenTurn, OwnedTurn } from "../replicas/owned-turn.ts";
import { type Admission, ReplicaPool } from "../replicas/pool.ts";
import { Replica } from "../replicas/replica.ts";
import type { EngineRequest } from "../replicas/wire.ts";
import { ManualClock } from "./manual-clock.ts";
import { type EngineScript, ScriptedEngine, type TurnScript } from "./scripted-engine.ts";

/** How long a contract may take before it counts as failed, ms. They end in a few; only a broken subject hangs. */
export const CONTRACT_LIMIT_MS = 20_000;

export interface WorldOptions {
  /** Script of each replica; its length is the number of replicas. */
  readonly scripts: ReadonlyArray<Partial<EngineScript>>;
  /** Run the engines as processes behind two true pipes instead of in memory. */
  readonly pipes?: boolean;
}

/** A line on a replica's wire, `> ` what the agent wrote, `< ` what it read. */
export interface WireLine {
  readonly replica: number;
  readonly text: string;
}

export interface Caller {
  readonly owner: number;
  readonly request: EngineRequest;
  readonly admission: Admission;
  readonly abort: AbortController;
  readonly turn: OwnedTurn;
  /** Token ids read so far. */
  readonly ids: number[];
  /** Settles once the caller's turn has ended, however; for arming. */
  readonly ended: Promise<void>;
}

export type CallOptions = Partial<EngineRequest> & { readonly promptTokens?: number };

export class World {
  readonly pool: ReplicaPool;
  readonly clock = new ManualClock();
  readonly wire: WireLine[] = [];
  readonly engines: (ScriptedEngine | undefined)[] = [];
  readonly #open: OpenTurn;
  readonly #ended = new Map<Caller, () => void>();
  #armed: (() => Promise<void>) | undefined;
  #wireWaiters: (() => void)[] = [];

  private constructor(open: OpenTurn, options: WorldOptions) {
    this.#open = open;
    this.pool = new ReplicaPool(
      options.scripts.map(
        (script, index) =>
          new Replica({
            index,
            clock: options.pipes ? systemClock : this.clock,
            limits: defaultReplicaLimits,
            onCacheLost: (lost) => this.pool.index.forget(lost),
            handOver: () => {
              const armed = this.#armed;
              this.#armed = undefined;
              return armed?.();
            },
            spawn: this.#spawn(
              index,
              { capabilities: "stop", maxContext: 8192, turns: [], ...script },
              options.pipes === true,
            ),
          }),
      ),
    );
  }

  /** Starts the replicas; resolves when all are READY. */
  static async open(open: OpenTurn, options: WorldOptions): Promise<World> {
    const world = new World(open, options);
    await Promise.all(world.pool.replicas.map((replica) => replica.firstReady));
    return world;
  }

  async close(): Promise<void> {
    for (const replica of this.pool.replicas) replica.engine?.process.kill("SIGKILL");
    await this.pool.stop();
  }

  /** A request whose prompt begins with the owner's number, and its place. */
  admit(owner: number, options: CallOptions = {}): Pick<Caller, "request" | "admission" | "abort"> {
    const { promptTokens = 10 + owner, ...rest } = options;
    const prompt = rest.prompt ?? Array.from({ length: promptTokens }, (_, at) => (at === 0 ? owner : at));
    const request: EngineRequest = { prompt, maxTokens: 64, sampling: {}, salt: "", ...rest };
    const abort = new AbortController();
    return { request, abort, admission: this.pool.admit(request, abort.signal) };
  }

  /** Admits a caller whose prompt begins with its own number; nothing is sent before its first pull. */
  call(owner: number, options: CallOptions = {}): Caller {
    const { request, admission, abort } = this.admit(owner, options);
    const ended = Promise.withResolvers<void>();
    const caller: Caller = {
      owner,
      request,
      admission,
      abort,
      turn: this.#open(admission, request, abort.signal),
      ids: [],
      ended: ended.promise,
    };
    this.#ended.set(caller, ended.resolve);
    return caller;
  }

  /** Pulls until `until` holds (default: the natural end); true when it stopped before the end. */
  read(caller: Caller, until: (ids: readonly number[]) => boolean = () => false): Promise<boolean> {
    return quietly(this.#read(caller, until));
  }

  async #read(caller: Caller, until: (ids: readonly number[]) => boolean): Promise<boolean> {
    try {
      for (let run = await caller.turn.tokens.next(); !run.done; run = await caller.turn.tokens.next()) {
        for (const id of run.value) {
          caller.ids.push(id);
          if (until(caller.ids)) return true;
        }
      }
    } catch (error) {
      this.#ended.get(caller)?.();
      throw error;
    }
    this.#ended.get(caller)?.();
    return false;
  }

  /** Closes the turn as a caller does that has enough. */
  hangUp(caller: Caller): Promise<void> {
    const closing = caller.turn.tokens.return().finally(() => this.#ended.get(caller)?.());
    return quietly(closing.then(() => undefined));
  }

  /** Arms the next release: it is over only when the successor has ended. */
  armNextRelease(successorEnded: Promise<unknown>): void {
    this.#armed = () => successorEnded.then(() => undefined);
  }

  /** Runs `seen` at the next release, at the moment the lease passes on. */
  watchNextRelease(seen: () => void): void {
    this.#armed = () => {
      seen();
      return Promise.resolve();
    };
  }

  /** Resolves once a wire line matches; lines that were there before count. */
  async line(matches: (line: WireLine, index: number) => boolean): Promise<void> {
    while (!this.wire.some(matches)) {
      await new Promise<void>((resolve) => this.#wireWaiters.push(resolve));
    }
  }

  /** The wire of one replica in short: each line's first word, with the owner for GEN and tokens left out. */
  shape(replica = 0): string[] {
    const words: string[] = [];
    for (const { replica: of, text } of this.wire) {
      if (of !== replica || / (READY|INFO|RESUME|PP|B?T) ?/.test(text)) continue;
      const [direction, head] = text.split(" ");
      const owner = /(GENI?) .* (\d+),/.exec(text)?.[2] ?? "";
      words.push(`${direction} ${head}${owner === "" ? "" : ` ${owner}`}`);
    }
    return words;
  }

  #log(replica: number, text: string): void {
    this.wire.push({ replica, text });
    const waiters = this.#wireWaiters;
    this.#wireWaiters = [];
    for (const wake of waiters) wake();
  }

  #spawn(replica: number, script: EngineScript, pipes: boolean): SpawnEngine {
    if (pipes) return this.#spawnPiped(replica, script);
    return (events: EngineEvents): EngineProcess => {
      let alive = true;
      const engine = new ScriptedEngine(script, (line) => {
        if (!alive) return;
        this.#log(replica, `< ${line}`);
        events.output(Buffer.from(`${line}\n`));
      });
      const exit = (code: number | null, signal: string | null) => {
        if (!alive) return;
        alive = false;
        queueMicrotask(() => events.exit({ code, signal }));
      };
      this.engines[replica] = engine;
      queueMicrotask(() => engine.start());
      return {
        pid: undefined,
        write: (line) => {
          this.#log(replica, `> ${line.trimEnd()}`);
          queueMicrotask(() => {
            if (alive && !engine.command(line.trimEnd())) exit(0, null);
          });
        },
        kill: (signal) => exit(null, signal),
        pause: () => {},
        resume: () => {},
      };
    };
  }

  /** The same script in a process of its own behind `cat | engine | cat`: two true pipes each way. */
  #spawnPiped(replica: number, script: EngineScript): SpawnEngine {
    let partial = "";
    const inner = spawnEngineProcess({
      command: "sh",
      args: [
        "-c",
        'cat | "$0" "$@" | cat',
        process.execPath,
        entryPath,
        "scripted-engine",
        "--script",
        JSON.stringify(script),
      ],
      onStderr: () => {},
      openWireLog: () => ({
        sent: (line) => this.#log(replica, `> ${line.trimEnd()}`),
        received: (chunk) => {
          const lines = (partial + chunk.toString()).split("\n");
          partial = lines.pop() ?? "";
          for (const line of lines) this.#log(replica, `< ${line}`);
        },
        close: () => {},
      }),
    });
    return inner;
  }
}

/** A play that fails leaves what it had under way behind; that must not count as an unhandled rejection. */
const quietly = <T>(promise: Promise<T>): Promise<T> => {
  promise.catch(() => {});
  return promise;
};

/** The tokens that the scripted engine gives this owner. */
export const ownTokens = (owner: number, script: TurnScript = {}): number[] => [
  ...Array.from({ length: script.tokens ?? 3 }, (_, at) => owner * 1000 + at + 1),
  2,
];

/** Whether these statistics are that caller's: its prompt count and its milliseconds. */
export const areOwn = (caller: Caller, statistics: DoneStatistics | null): boolean =>
  statistics !== null &&
  statistics.promptTokens === caller.request.prompt.length &&
  statistics.promptMs === caller.owner + 0.5 &&
  statistics.decodeMs === caller.owner;
