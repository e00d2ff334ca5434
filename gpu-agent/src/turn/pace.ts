/**
 * How fast turns go here, from their own DONE statistics: the base of every promise about time (`retry-after`, deadlines). Exponential
 * means, so that the last few dozen turns count.
 *
 * Pure memory; no clock. Before the first turn it promises nothing.
 */
import type { DoneStatistics } from "@lockgate/shared-types";

/** Weight of the newest turn. */
const NEWEST_SHARE = 0.1;

export class Pace {
  #tokensPerMs: number | undefined;
  #generated: number | undefined;

  /** Tokens that one slot reads or makes in a second; undefined before the first turn. */
  get tokensPerSecond(): number | undefined {
    return this.#tokensPerMs === undefined ? undefined : this.#tokensPerMs * 1000;
  }

  note({ promptRead, generated, promptMs, decodeMs }: DoneStatistics): void {
    const ms = promptMs + decodeMs;
    if (!(ms > 0)) return;
    this.#tokensPerMs = mean(this.#tokensPerMs, (promptRead + generated) / ms);
    this.#generated = mean(this.#generated, generated);
  }

  /** Tokens that a turn with this prompt and bound is likely to take. */
  expectedTokens(promptTokens: number, maxTokens: number): number {
    return promptTokens + Math.min(maxTokens, this.#generated ?? 0);
  }

  /** Time that `slots` slots take for so many tokens, ms; undefined before the first turn. */
  timeMs(tokens: number, slots: number): number | undefined {
    return this.#tokensPerMs === undefined ? undefined : tokens / (this.#tokensPerMs * Math.max(1, slots));
  }
}

const mean = (old: number | undefined, value: number): number =>
  old === undefined ? value : old + NEWEST_SHARE * (value - old);
