/**
 * The engine on the other end of a scheduled pipe: sequential per lane, in the grammar of engine-protocol. It takes a command only when it
 * is about to say its next line. That loses nothing: an engine acts on the agent through its lines alone, so taking a command earlier, or
 * holding a line back in the pipe, looks the same from the agent's side.
 *
 * Pure state: no pipe, no time, no faults (scheduled-process.ts has those).
 */

/** Which kind of engine: base grammar, with turn tags, or with tags and slots. */
export const variants = ["untagged", "tagged", "batched"] as const;
export type Variant = (typeof variants)[number];

/** Slots of the batched variant. */
export const BATCHED_SLOTS = 2;

/** What every turn says before its DONE. */
export interface TurnShape {
  readonly resume: boolean;
  readonly prefillLines: number;
  readonly tokenLines: number;
  /** T lines in one write of the engine. */
  readonly tokensPerLine: number;
}

/** Token `index` (from 0) of a caller's answer; no two callers share one. */
export const tokenOf = (caller: number, index: number): number => 1000 * caller + index + 1;
export const tokensOf = (shape: TurnShape): number => shape.tokenLines * shape.tokensPerLine;

/** Prompt of a caller: its length and its ids are nobody else's. */
export const promptOf = (caller: number): number[] => new Array(10 + caller).fill(caller);
/** Prefill time of a caller's DONE, ms; nobody else's. */
export const promptMsOf = (caller: number): number => caller + 0.5;

interface ModelTurn {
  readonly caller: number;
  readonly promptTokens: number;
  /** ` turn=<n>`, or nothing. */
  readonly tag: string;
  /** Lines said so far. */
  said: number;
  tokens: number;
  /** DONE will never come. */
  mute: boolean;
}

interface ModelLane {
  running: ModelTurn | undefined;
  /** GENs taken while another ran. Empty for all who keep to the lease. */
  readonly queue: ModelTurn[];
  stopped: boolean;
}

/** What an engine says next on a lane, or undefined when it has nothing to say. */
export type Saying = "RESUME" | "PP" | "T" | "DONE";

/** One write of the engine. */
export interface Said {
  readonly text: string;
  readonly kind: Saying | "ERR";
  readonly caller: number;
}

const words = (line: string): string[] => line.trimEnd().split(" ");

export class EngineModel {
  readonly #variant: Variant;
  readonly #shape: TurnShape;
  readonly #lanes: readonly ModelLane[];
  /** Written by the agent, not taken yet. */
  readonly commands: string[] = [];

  constructor(variant: Variant, shape: TurnShape) {
    this.#variant = variant;
    this.#shape = shape;
    const lanes = variant === "batched" ? BATCHED_SLOTS : 1;
    this.#lanes = Array.from({ length: lanes }, () => ({ running: undefined, queue: [], stopped: false }));
  }

  get lanes(): number {
    return this.#lanes.length;
  }

  get readyLine(): string {
    const capabilities = { untagged: "stop", tagged: "stop turns", batched: `stop turns slots=${BATCHED_SLOTS}` };
    return `READY 4096 ${capabilities[this.#variant]}\n`;
  }

  /** What comes next on a lane if no STOP is taken first; `stdinFull`: no command can be taken at all. */
  next(slot: number, stdinFull: boolean): Saying | undefined {
    const lane = this.#lane(slot);
    const queued = lane.queue[0] !== undefined || (!stdinFull && this.#pending(slot, "GEN") !== -1);
    if (lane.running === undefined && !queued) return undefined;
    const said = lane.running?.said ?? 0;
    const { resume, prefillLines, tokenLines } = this.#shape;
    const before = resume ? 1 : 0;
    const saying: Saying =
      lane.stopped && lane.running !== undefined
        ? "DONE"
        : said < before
          ? "RESUME"
          : said < before + prefillLines
            ? "PP"
            : said < before + prefillLines + tokenLines
              ? "T"
              : "DONE";
    return lane.running?.mute && saying === "DONE" ? undefined : saying;
  }

  /** Whether a STOP that waits in the pipe would end what runs on the lane. */
  stoppable(slot: number): boolean {
    const { running, stopped } = this.#lane(slot);
    return running !== undefined && !running.mute && !stopped && this.#pending(slot, "STOP", running.tag) !== -1;
  }

  /** Takes the STOP that `stoppable` saw, and all before it. */
  takeStop(slot: number): void {
    const at = this.#pending(slot, "STOP", this.#lane(slot).running?.tag ?? "");
    for (let taken = 0; taken <= at; taken++) this.#take();
  }

  /** Says what `next` told; takes commands as far as needed. */
  say(slot: number): Said {
    const { lane, turn } = this.#run(slot);
    const kind = this.next(slot, false);
    turn.said++;
    switch (kind) {
      case "RESUME":
        return this.#said(slot, turn, kind, ["RESUME 2"]);
      case "PP":
        return this.#said(slot, turn, kind, [`PP ${turn.said} ${turn.promptTokens} 1.0 99.0`]);
      case "T": {
        const lines = [];
        for (let n = 0; n < this.#shape.tokensPerLine; n++) lines.push(`T ${tokenOf(turn.caller, turn.tokens++)}`);
        return this.#said(slot, turn, kind, lines);
      }
      case "DONE": {
        const finish = lane.stopped ? "cancel" : "stop";
        this.#over(lane);
        return this.#said(slot, turn, kind, [
          `DONE ${turn.tokens} ${turn.promptTokens} ${promptMsOf(turn.caller)} 1.0 ${finish} 0 0 2 0 0 0 0 0.0 ${turn.promptTokens - 2} 0`,
        ]);
      }
      case undefined:
        throw new Error(`lane ${slot} has nothing to say`);
    }
  }

  /** Ends what runs, or would run next, with ERR. */
  refuse(slot: number): Said {
    const { lane, turn } = this.#run(slot);
    this.#over(lane);
    return this.#said(slot, turn, "ERR", ["ERR out of luck"]);
  }

  /** The turn that runs, or would run next, never says DONE. */
  mute(slot: number): void {
    this.#run(slot).turn.mute = true;
  }

  /** Caller whose turn runs; 0 for none. */
  caller(slot: number): number {
    return this.#lane(slot).running?.caller ?? 0;
  }

  /** Everything that decides what it says from now on, as text. */
  fingerprint(): string {
    const turn = ({ caller, said, mute }: ModelTurn) => `${caller}.${said}${mute ? "m" : ""}`;
    const lane = ({ running, queue, stopped }: ModelLane) =>
      `${running === undefined ? "-" : turn(running)}${stopped ? "s" : ""}+${queue.map(turn).join()}`;
    return `${this.#lanes.map(lane).join("|")}<${this.commands.map((line) => line.slice(0, 4) + line.slice(-8)).join()}`;
  }

  #lane(slot: number): ModelLane {
    const lane = this.#lanes[slot];
    if (lane === undefined) throw new Error(`the engine has no slot ${slot}`);
    return lane;
  }

  #slotOf(line: string): number {
    return line.startsWith("B") ? Number(words(line)[1]) : 0;
  }

  /** Where in the pipe the first such command for the lane is; -1 for none. A STOP counts only if it names this tag. */
  #pending(slot: number, verb: "GEN" | "STOP", tag = ""): number {
    return this.commands.findIndex(
      (line) =>
        line.replace(/^B/, "").startsWith(verb) &&
        this.#slotOf(line) === slot &&
        (verb === "GEN" || line.trimEnd().endsWith(`${verb}${this.#variant === "batched" ? ` ${slot}` : ""}${tag}`)),
    );
  }

  #take(): void {
    const line = this.commands.shift();
    if (line === undefined) throw new Error("there is no command to take");
    const lane = this.#lane(this.#slotOf(line));
    const tag = / turn=\d+/.exec(line)?.[0] ?? "";
    if (line.replace(/^B/, "").startsWith("GEN")) {
      const ids = (words(line).at(-1) ?? "").split(",");
      const turn = { caller: Number(ids[0]), promptTokens: ids.length, tag, said: 0, tokens: 0, mute: false };
      if (lane.running === undefined) this.#start(lane, turn);
      else lane.queue.push(turn);
    } else if (tag === "" || tag === lane.running?.tag) {
      lane.stopped = true;
    }
  }

  /** Takes commands until something runs on the lane. */
  #run(slot: number): { lane: ModelLane; turn: ModelTurn } {
    const lane = this.#lane(slot);
    const queued = lane.running === undefined ? lane.queue.shift() : undefined;
    if (queued !== undefined) this.#start(lane, queued);
    while (lane.running === undefined) this.#take();
    return { lane, turn: lane.running };
  }

  /** A STOP that came before the GEN was taken is stale, and forgotten. */
  #start(lane: ModelLane, turn: ModelTurn): void {
    lane.running = turn;
    lane.stopped = false;
  }

  #over(lane: ModelLane): void {
    lane.running = undefined;
  }

  #said(slot: number, turn: ModelTurn, kind: Said["kind"], lines: readonly string[]): Said {
    const address = (line: string) =>
      this.#variant === "batched" ? `B${line.replace(" ", ` ${slot} `)}${turn.tag}\n` : `${line}${turn.tag}\n`;
    return { text: lines.map(address).join(""), kind, caller: turn.caller };
  }
}
