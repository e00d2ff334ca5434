/**
 * The process of one engine as the scheduler owns it: both pipes, its life, and what can go wrong with it. Nothing happens by itself; each
 * method is one event. What the agent writes is checked here, for only here is it known what the agent has been told so far.
 */
import type { EngineEvents, EngineProcess } from "../../../gpu-agent/src/replicas/engine.ts";
import { EngineModel, type Said, type TurnShape, type Variant } from "./engine-model.ts";

/** A line without an end, in the pieces that a pipe hands out. */
const LONG_LINE_BYTES = 10 * 1024 * 1024;
const longLinePiece = Buffer.alloc(64 * 1024, "x");

/** What a process tells about the agent's behaviour. */
export interface ProcessWatch {
  nowMs(): number;
  /** A GEN of a caller was written. */
  generated(process: ScheduledProcess, slot: number, caller: number): void;
  /** The agent kills the process. */
  killed(process: ScheduledProcess): void;
  /** The agent broke a rule of the pipe. */
  broke(rule: string): void;
  say(words: string): void;
}

export interface ScheduledProcessOptions {
  readonly replica: number;
  readonly pid: number;
  readonly variant: Variant;
  readonly shape: TurnShape;
  readonly events: EngineEvents;
  readonly watch: ProcessWatch;
}

/** GENs written and answers read on one lane, as the agent's end of the pipe sees them. */
interface LaneBooks {
  generated: number;
  /** DONE and ERR lines that went to the agent. */
  answered: number;
  stops: number;
  /** Caller of the last GEN. */
  caller: number;
}

export class ScheduledProcess implements EngineProcess {
  readonly pid: number;
  readonly replica: number;
  readonly model: EngineModel;
  readonly books: readonly LaneBooks[];
  alive = true;
  ready = false;
  /** Its output ended. */
  ended = false;
  killed = false;
  killedAtMs = 0;
  frozen = false;
  stdinFull = false;
  /** Survives SIGKILL, as a process in an uninterruptible wait does. */
  unkillable = false;
  /** The agent does not read the output now. */
  paused = false;
  /** Rest of a line that was cut, and what it completes. */
  rest: { readonly bytes: Buffer; readonly said: Said; readonly slot: number } | undefined;
  /** Lines that follow a DONE and belong to no turn. */
  readonly strays: { readonly slot: number; readonly text: string }[] = [];
  /** What happened to it that allows the agent to give it up; undefined while nothing did. */
  cause: string | undefined;
  /** Callers that were answered ERR. */
  readonly refused = new Set<number>();
  /** When the agent last heard from it, could hear from it again, or asked it something; ms. */
  quietSinceMs = 0;
  /** When it was last told to stop, ms. */
  stoppedAtMs = 0;

  readonly #events: EngineEvents;
  readonly #watch: ProcessWatch;

  constructor({ replica, pid, variant, shape, events, watch }: ScheduledProcessOptions) {
    this.replica = replica;
    this.pid = pid;
    this.model = new EngineModel(variant, shape);
    this.books = Array.from({ length: this.model.lanes }, () => ({ generated: 0, answered: 0, stops: 0, caller: 0 }));
    this.#events = events;
    this.#watch = watch;
  }

  // The agent's end.

  write(line: string): void {
    if (this.ended && line.includes("STOP"))
      this.#watch.broke(`STOP on replica ${this.replica} after its output ended`);
    if (!this.alive) return;
    this.#watch.say(`the agent writes ${line.trimEnd().replace(/ [\d,]{12,}$/, " …")} to replica ${this.replica}`);
    const slot = line.startsWith("B") ? Number(line.split(" ")[1]) : 0;
    const books = this.#booksOf(slot);
    if (/^B?GEN/.test(line)) {
      const caller = Number(line.slice(line.lastIndexOf(" ") + 1).split(",", 1)[0]);
      if (books.generated > books.answered)
        this.#watch.broke(`turn ${caller} wrote GEN while turn ${books.caller} had no DONE yet`);
      books.generated++;
      books.stops = 0;
      books.caller = caller;
      this.quietSinceMs = this.#watch.nowMs();
      this.#watch.generated(this, slot, caller);
    } else if (/^B?STOP/.test(line)) {
      this.stoppedAtMs = this.#watch.nowMs();
      if (books.generated === books.answered) this.#watch.broke(`STOP on replica ${this.replica} where no turn runs`);
      if (books.stops++ > 0) this.#watch.broke(`turn ${books.caller} wrote STOP twice`);
    }
    this.model.commands.push(line);
  }

  kill(): void {
    if (this.killed) return;
    this.killed = true;
    this.killedAtMs = this.#watch.nowMs();
    this.#watch.say(`the agent kills replica ${this.replica}`);
    this.#watch.killed(this);
  }

  pause(): void {
    this.paused = true;
  }

  resume(): void {
    this.paused = false;
    this.quietSinceMs = this.#watch.nowMs();
  }

  // The engine's end.

  /** Whether output can come now: the process may be gone with lines left in its pipe. */
  get speaks(): boolean {
    return this.ready && !this.ended && !this.frozen && !this.paused;
  }

  /** Whether the lane's turn is out: GEN written, DONE or ERR not read. */
  out(slot: number): boolean {
    const books = this.#booksOf(slot);
    return books.generated > books.answered;
  }

  becomeReady(): void {
    this.ready = true;
    this.#events.output(Buffer.from(this.model.readyLine));
  }

  /** Puts one write of the engine through; `cutAt`: only so many bytes of it, the rest stays for later. */
  put(said: Said, slot: number, cutAt?: number): void {
    const bytes = Buffer.from(said.text);
    const at = cutAt === undefined ? bytes.length : 1 + (cutAt % (bytes.length - 1));
    this.#watch.say(`replica ${this.replica} says ${JSON.stringify(bytes.toString("utf8", 0, at))}`);
    if (at === bytes.length) this.#answered(said, slot);
    else this.rest = { bytes: bytes.subarray(at), said, slot };
    this.#events.output(bytes.subarray(0, at));
  }

  putRest(): void {
    const { rest } = this;
    if (rest === undefined) throw new Error("no line is cut");
    this.rest = undefined;
    this.#watch.say(`replica ${this.replica} says the rest, ${JSON.stringify(rest.bytes.toString())}`);
    this.#answered(rest.said, rest.slot);
    this.#events.output(rest.bytes);
  }

  /** Raw bytes that break the grammar. */
  putBroken(bytes: Buffer, cause: string): void {
    this.cause = cause;
    this.#watch.say(`replica ${this.replica} says ${cause}`);
    this.#events.output(bytes);
  }

  putLongLine(): void {
    this.cause = "a line of 10 MB";
    this.#watch.say(`replica ${this.replica} says ${this.cause}`);
    for (let sent = 0; sent < LONG_LINE_BYTES; sent += longLinePiece.length) this.#events.output(longLinePiece);
  }

  putStray(): void {
    const stray = this.strays.shift();
    if (stray === undefined) throw new Error("there is no stray line");
    // Untagged, nobody waits for it: that gives the engine up. Tagged, it must be dropped.
    if (!stray.text.includes(" turn=")) this.cause = "a line while no turn ran";
    this.#watch.say(`replica ${this.replica} says ${JSON.stringify(stray.text)} once more, to nobody`);
    this.#events.output(Buffer.from(stray.text));
  }

  /** The process is gone. Its output may still hold lines, until `end`. */
  exit(signal: string): void {
    this.alive = false;
    this.cause ??= signal;
    this.#watch.say(`the process of replica ${this.replica} ends (${signal})`);
    this.#events.exit({ code: null, signal });
  }

  /** Its output ends, with or without the process. */
  end(): void {
    this.ended = true;
    this.cause ??= "its output ended";
    this.#watch.say(`the output of replica ${this.replica} ends`);
    this.#events.end();
  }

  /** SIGSTOP. */
  freeze(): void {
    this.frozen = true;
  }

  /** It takes no command any more. */
  fillStdin(): void {
    this.stdinFull = true;
  }

  /** SIGCONT, or room in its stdin again. */
  thaw(): void {
    this.frozen = false;
    this.stdinFull = false;
  }

  /** What tells two states of it apart. */
  fingerprint(): string {
    const { alive, ready, ended, killed, frozen, stdinFull, paused, unkillable } = this;
    const flags = [alive, ready, ended, killed, frozen, stdinFull, paused, unkillable].map(Number).join("");
    const books = this.books.map(({ generated, answered, stops }) => `${generated - answered}.${stops}`).join("|");
    return `${flags}.${books}.${this.rest?.bytes.length ?? ""}.${this.strays.length}.${this.cause}.${this.model.fingerprint()}`;
  }

  #answered(said: Said, slot: number): void {
    this.quietSinceMs = this.#watch.nowMs();
    if (said.kind === "ERR") this.refused.add(said.caller);
    if (said.kind === "DONE" || said.kind === "ERR") this.#booksOf(slot).answered++;
  }

  #booksOf(slot: number): LaneBooks {
    const books = this.books[slot];
    if (books === undefined) throw new Error(`there is no slot ${slot}`);
    return books;
  }
}
