/** The Decoder of index.d.ts: checks arguments, and leaves state and work to the addon's handle. */
import { randomInt } from "node:crypto";
import { integerOf, objectOf, samplingOf, textOf, tokensOf } from "./checks.js";

const INT32_MAX = 2 ** 31 - 1;

const randomSeed = () => randomInt(2 ** 32);

export class Decoder {
  #handle;
  #closed;
  slots;
  contextTokens;

  /** @param made what the addon's createDecoder gave */
  constructor({ handle, slots, contextTokens }) {
    this.#handle = handle;
    this.slots = slots;
    this.contextTokens = contextTokens;
  }

  run(options) {
    const { turn, slot, prompt, maxTokens, sampling, salt } = objectOf("options", options);
    this.#handle.run({
      turn: integerOf("turn", turn, 0, Number.MAX_SAFE_INTEGER),
      slot: integerOf("slot", slot, 0, this.slots - 1),
      prompt: tokensOf("prompt", prompt),
      maxTokens: integerOf("maxTokens", maxTokens, 1, INT32_MAX),
      sampling: samplingOf(sampling, randomSeed),
      salt: textOf("salt", salt, ""),
    });
  }

  stop(turn) {
    this.#handle.stop(integerOf("turn", turn, 0, Number.MAX_SAFE_INTEGER));
  }

  close() {
    this.#closed ??= this.#handle.close();
    return this.#closed;
  }
}
