/**
 * One lane of an engine's output: the whole pipe of an unbatched engine, or one slot of a batched one. The pump puts messages in, the
 * turn that owns the lane takes them out; tokens lie in the queue as plain numbers.
 *
 * The lane does not say who may read: the lease does. It knows which turn's lines it takes, where lines are tagged.
 */
import { MAX_BATCH_TOKENS, TOKEN_OVERRUN } from "./limits.ts";
import type { EngineMessage } from "./wire.ts";

/** What a turn reads besides tokens. `eof`: the output ended or the engine was poisoned; nothing follows, ever. */
export type LaneMessage =
  | Extract<EngineMessage, { kind: "resume" | "prefill" | "done" | "error" }>
  | { readonly kind: "eof"; readonly reason: string };

export class Lane {
  /** Lines with another turn's tag, dropped. */
  dropped = 0;
  /** When the last line of any kind came, on the clock of the pump. */
  lastLineMs = 0;
  /** Time of the last prefill chunk of the running turn, ms. */
  lastChunkMs = 0;

  #entries: (number | LaneMessage)[] = [];
  #head = 0;
  #arrival: { readonly promise: Promise<void>; readonly resolve: () => void } | undefined;
  #eof: LaneMessage | undefined;
  /** Turn whose tagged lines are taken; -1 when none runs. */
  #turn = -1;
  /** GENs written without a DONE or ERR read yet; 0 or 1 for all who keep to the lease. */
  #outstanding = 0;
  #tokensLeft = 0;

  /** True while a GEN is out that no DONE or ERR has answered. */
  get running(): boolean {
    return this.#outstanding > 0;
  }

  /** Messages and tokens that were put and not taken yet. */
  get queued(): number {
    return this.#entries.length - this.#head;
  }

  /** A GEN of this turn is about to be written. */
  begin(turn: number, maxTokens: number, nowMs: number): void {
    this.#turn = turn;
    this.#outstanding++;
    this.#tokensLeft = maxTokens + TOKEN_OVERRUN;
    this.lastLineMs = nowMs;
    this.lastChunkMs = 0;
  }

  /** Whether a line with this tag (-1: none) belongs to the running turn. */
  accepts(turn: number): boolean {
    return turn === -1 ? this.#outstanding > 0 : this.#outstanding > 0 && turn === this.#turn;
  }

  /** Takes a token in. False: more tokens than were asked for. */
  putToken(id: number): boolean {
    if (this.#tokensLeft-- <= 0) return false;
    this.#put(id);
    return true;
  }

  putMessage(message: LaneMessage): void {
    if (message.kind === "done" || message.kind === "error") {
      this.#outstanding--;
      this.#put(message);
    } else if (message.kind === "eof") {
      this.#eof ??= message;
      this.#outstanding = 0;
      this.wake();
    } else if (message.kind === "prefill") {
      this.lastChunkMs = message.ms;
      const last = this.#entries.at(-1);
      // Progress lines of a caller that does not read pile up to one.
      if (this.#head < this.#entries.length && typeof last === "object" && last.kind === "prefill") {
        this.#entries[this.#entries.length - 1] = message;
      } else this.#put(message);
    } else this.#put(message);
  }

  /**
   * What is there: a run of tokens (at most MAX_BATCH_TOKENS), one message, or null for nothing yet. After the end of the output the
   * `eof` message again and again.
   */
  take(): readonly number[] | LaneMessage | null {
    const first = this.#entries[this.#head];
    if (first === undefined) return this.#eof ?? null;
    if (typeof first === "object") {
      this.#head++;
      this.#compact();
      return first;
    }
    let end = this.#head + 1;
    const bound = Math.min(this.#entries.length, this.#head + MAX_BATCH_TOKENS);
    while (end < bound && typeof this.#entries[end] === "number") end++;
    const tokens = this.#entries.slice(this.#head, end) as number[];
    this.#head = end;
    this.#compact();
    return tokens;
  }

  /** Resolves at the next put or wake; at once when something can be taken. */
  wait(): Promise<void> {
    if (this.#head < this.#entries.length || this.#eof !== undefined) return Promise.resolve();
    this.#arrival ??= Promise.withResolvers<void>();
    return this.#arrival.promise;
  }

  /** Resolves when no turn runs on the lane. */
  async idle(): Promise<void> {
    while (this.running) {
      this.#arrival ??= Promise.withResolvers<void>();
      await this.#arrival.promise;
    }
  }

  /** Ends a wait with nothing new, so that its waiter looks at its signal and its clock. */
  wake(): void {
    const arrival = this.#arrival;
    this.#arrival = undefined;
    arrival?.resolve();
  }

  #put(entry: number | LaneMessage): void {
    this.#entries.push(entry);
    this.wake();
  }

  #compact(): void {
    if (this.#head !== this.#entries.length) return;
    this.#entries = [];
    this.#head = 0;
  }
}
