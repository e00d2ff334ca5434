/** loadModel and the Model of index.d.ts. */
import { detached } from "./callbacks.js";
import { flagOf, functionOf, integerOf, objectOf, textOf, textsOf } from "./checks.js";
import { Decoder } from "./decoder.js";
import { addon } from "./load-addon.js";
import { invalidArgument, nativeError } from "./native-error.js";

/** The addon's own bounds; it checks them again. Context sizes depend on the model, so the addon alone knows those. */
const MAX_SLOTS = 64;
const MAX_THREADS = 512;
const KV_TYPES = ["f32", "f16", "bf16", "q8_0", "q4_0"];

const tokenizeRequest = (text, options = {}) => {
  const { parseSpecial, addSpecial } = objectOf("options", options);
  return {
    text: textOf("text", text),
    parseSpecial: flagOf("parseSpecial", parseSpecial),
    addSpecial: flagOf("addSpecial", addSpecial),
  };
};

class Model {
  #handle;
  #pieces;
  #closed;
  info;

  constructor(handle) {
    this.#handle = handle;
    this.info = handle.info();
  }

  async tokenize(text, options) {
    return this.#handle.tokenize(tokenizeRequest(text, options));
  }

  tokenizeSync(text, options) {
    return this.#handle.tokenizeSync(tokenizeRequest(text, options));
  }

  pieces() {
    if (this.#closed !== undefined) {
      throw nativeError("ERR_CLOSED", "the model was closed");
    }
    this.#pieces ??= this.#handle.pieces();
    return this.#pieces;
  }

  createDecoder(options) {
    const {
      slots,
      contextTokens,
      kvType = "f16",
      threads,
      prefillChunkTokens,
      onEvents,
    } = objectOf("options", options);
    if (!KV_TYPES.includes(kvType)) {
      throw invalidArgument("kvType", `one of ${KV_TYPES.join(", ")}`);
    }
    const made = this.#handle.createDecoder(
      {
        slots: integerOf("slots", slots, 1, MAX_SLOTS, 1),
        threads: integerOf("threads", threads, 1, MAX_THREADS, 1),
        kvType,
        contextTokens,
        prefillChunkTokens,
      },
      detached(functionOf("onEvents", onEvents)),
    );
    return new Decoder(made);
  }

  close() {
    this.#closed ??= this.#handle.close();
    return this.#closed;
  }
}

export async function loadModel(options) {
  const { path, devices, vocabOnly, onProgress, signal } = objectOf("options", options);
  if (signal !== undefined && !(signal instanceof AbortSignal)) {
    throw invalidArgument("signal", "an AbortSignal");
  }
  const request = {
    path: textOf("path", path),
    devices: devices === undefined ? undefined : textsOf("devices", devices),
    vocabOnly: flagOf("vocabOnly", vocabOnly),
  };
  const report = onProgress === undefined ? () => {} : detached(functionOf("onProgress", onProgress));
  if (signal?.aborted) {
    throw nativeError("ERR_CANCELLED", "the load was cancelled");
  }
  const { promise, cancel } = addon.loadModel(request, report);
  signal?.addEventListener("abort", cancel, { once: true });
  try {
    return new Model(await promise);
  } finally {
    signal?.removeEventListener("abort", cancel);
  }
}
