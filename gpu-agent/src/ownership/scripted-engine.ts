/**
 * A producer that keeps to the base grammar and does what its script says: the one simulated part of the contracts. Sequential, as the real
 * engines are: a command that comes while a turn runs waits until that turn is over.
 *
 * What identifies a turn is its prompt: the answer to prompt `[owner, …]` is `owner * 1000 + 1, …` and the end token, and DONE carries the
 * prompt's length and `owner` as milliseconds. The same script runs in memory and, over OS pipes, in a process (scripted-engine-process.ts).
 */
import { parseCommand } from "../host/commands.ts";

export const END_TOKEN = 2;

/** One generation of a script. Absent fields: answer at once, with three tokens and the end token. */
export interface TurnScript {
  /** Tokens before the end token. */
  readonly tokens?: number;
  /** Tokens sent at once; the others are held with DONE. Absent: all. */
  readonly sendFirst?: number;
  /**
   * What DONE (and the held tokens) wait for: STOP or the next command, STOP alone, a `release()` from outside, or nothing that ever comes.
   * STOP drops held tokens; the next command or a release sends them.
   */
  readonly hold?: "stop-or-next" | "stop" | "manual" | "forever";
  /** Answers ERR with this instead of anything else. */
  readonly refuse?: string;
  readonly finish?: string;
}

export interface EngineScript {
  readonly capabilities: string;
  readonly maxContext: number;
  /** By order of the GENs; missing ones are `{}`. */
  readonly turns: readonly TurnScript[];
}

interface RunningTurn {
  readonly script: TurnScript;
  readonly owner: number;
  readonly promptTokens: number;
  readonly slot: number;
  readonly tag: string;
  readonly held: readonly number[];
  sent: number;
}

export class ScriptedEngine {
  readonly #script: EngineScript;
  readonly #send: (line: string) => void;
  readonly #batched: boolean;
  readonly #queue: string[] = [];
  readonly #running = new Map<number, RunningTurn>();
  #started = 0;

  constructor(script: EngineScript, send: (line: string) => void) {
    this.#script = script;
    this.#send = send;
    this.#batched = /slots=/.test(script.capabilities);
  }

  start(): void {
    this.#send(
      `READY ${this.#script.maxContext}${this.#script.capabilities === "" ? "" : ` ${this.#script.capabilities}`}`,
    );
  }

  /** Takes one command line without its LF. Returns false at QUIT. */
  command(line: string): boolean {
    const command = parseCommand(line);
    if (command.kind === "quit") return false;
    if (command.kind === "stop") {
      const turn = this.#running.get(command.slot);
      if (turn !== undefined && turn.script.hold !== "manual" && turn.script.hold !== "forever")
        this.#finish(turn, false);
      return true;
    }
    const slot = "slot" in command ? command.slot : 0;
    const running = this.#running.get(slot);
    if (running?.script.hold === "stop-or-next") this.#finish(running, true);
    if (this.#running.has(slot)) this.#queue.push(line);
    else this.#generate(line);
    return true;
  }

  /** Ends a turn that is held for `manual`. */
  release(slot = 0): void {
    const turn = this.#running.get(slot);
    if (turn !== undefined) this.#finish(turn, true);
  }

  #generate(line: string): void {
    const command = parseCommand(line);
    const script = this.#script.turns[this.#started++] ?? {};
    const { slot, turn } =
      command.kind === "generate" || command.kind === "auxiliary" ? command : { slot: 0, turn: -1 };
    const tag = turn === -1 ? "" : ` turn=${turn}`;
    const at = this.#batched ? ` ${slot}` : "";
    const b = this.#batched ? "B" : "";
    if (script.refuse !== undefined) {
      this.#send(`${b}ERR${at} ${script.refuse}${tag}`);
      return;
    }
    const prompt = line.split(" ").at(-1)?.split(",").map(Number) ?? [];
    const owner = prompt[0] ?? 0;
    const tokens = [...Array.from({ length: script.tokens ?? 3 }, (_, index) => owner * 1000 + index + 1), END_TOKEN];
    const sendNow = tokens.slice(0, script.sendFirst ?? tokens.length);
    const running = {
      script,
      owner,
      promptTokens: prompt.length,
      slot,
      tag,
      held: tokens.slice(sendNow.length),
      sent: 0,
    };
    this.#running.set(slot, running);
    this.#sendTokens(running, sendNow);
    if (script.hold === undefined) this.#finish(running, true);
  }

  #sendTokens(turn: RunningTurn, tokens: readonly number[]): void {
    for (const token of tokens) this.#send(`${this.#batched ? `BT ${turn.slot}` : "T"} ${token}${turn.tag}`);
    turn.sent += tokens.length;
  }

  #finish(turn: RunningTurn, complete: boolean): void {
    if (complete) this.#sendTokens(turn, turn.held);
    const finish = turn.script.finish ?? (turn.held.length > 0 && !complete ? "cancel" : "stop");
    const head = this.#batched ? `BDONE ${turn.slot}` : "DONE";
    this.#send(
      `${head} ${turn.sent} ${turn.promptTokens} ${turn.owner}.5 ${turn.owner}.0 ${finish} 0 0 0 0 0 0 0 0.0 ${turn.promptTokens} 0${turn.tag}`,
    );
    this.#running.delete(turn.slot);
    const next = this.#queue.shift();
    if (next !== undefined) this.command(next);
  }
}
