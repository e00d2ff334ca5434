/**
 * The contract of the native module: what JavaScript may ask of the decoder and what it gets back.
 *
 * Units: lengths are tokens unless named otherwise, times are milliseconds of a monotonic clock, sizes are bytes.
 * Every error is an `Error` whose `code` is one of {@link NativeErrorCode}; no argument and no state aborts the process.
 * Importing the module throws an `Error` with code `ERR_ADDON_NOT_BUILT` where the addon was not compiled yet.
 *
 * Several threads of a process may import it; each has its own models and decoders. Neither a model nor an idle decoder keeps
 * the process alive, and leaving the process or terminating the worker is safe in every state.
 */

/** Stable codes of the errors that this module throws or rejects with. */
export type NativeErrorCode =
  | "ERR_INVALID_ARGUMENT" // a value of the wrong type or out of range; the message names it
  | "ERR_FILE_NOT_FOUND" // no such file, or not readable
  | "ERR_NOT_A_MODEL" // not a GGUF, truncated, or an architecture that llama.cpp does not know
  | "ERR_UNKNOWN_DEVICE" // a device name that listDevices() does not give
  | "ERR_OUT_OF_MEMORY" // weights or KV cache do not fit
  | "ERR_CANCELLED" // the load was cancelled through its signal
  | "ERR_CONTEXT_EXCEEDED" // prompt plus at least one token does not fit the slot
  | "ERR_SLOT_BUSY" // the slot runs another turn
  | "ERR_CLOSED" // the model or decoder was closed
  | "ERR_DECODE"; // llama.cpp refused a batch

/** One compute device that llama.cpp's backends offer here. */
export interface Device {
  /** The backend's own name, as `LoadOptions.devices` takes it, e.g. `CPU`, `CUDA0`. */
  readonly name: string;
  /** What the driver calls it. */
  readonly description: string;
  readonly kind: "cpu" | "gpu" | "igpu" | "accelerator";
  readonly memoryFreeBytes: number;
  readonly memoryTotalBytes: number;
}

/** A backend that was looked for, and what came of it. */
export interface Backend {
  readonly name: "cpu" | "cuda" | "vulkan" | "metal";
  /** The library file that was tried, or null where its package is not installed. */
  readonly path: string | null;
  readonly loaded: boolean;
  /** Why it is not loaded (the dynamic loader's own words where it has any); null when loaded. */
  readonly reason: string | null;
}

export interface LoadOptions {
  /** Path of a GGUF file. */
  readonly path: string;
  /**
   * Device names; the model's layers go to these alone. Absent: all GPUs, or the CPU where there is none. The CPU cannot share
   * them with another device (ERR_INVALID_ARGUMENT).
   */
  readonly devices?: readonly string[];
  /** Load vocabulary and metadata only (for a tokenizer); `createDecoder` then refuses. */
  readonly vocabOnly?: boolean;
  /** Fraction 0..1 of the load; called on the JavaScript thread, at most about 20 times a second. */
  readonly onProgress?: (fraction: number) => void;
  /** Cancels the load, which then rejects with ERR_CANCELLED. */
  readonly signal?: AbortSignal;
}

export type KvType = "f32" | "f16" | "bf16" | "q8_0" | "q4_0";

export interface ModelInfo {
  readonly description: string;
  readonly architecture: string;
  /** Context length that the model was trained for. */
  readonly trainedContext: number;
  readonly vocabSize: number;
  readonly layers: number;
  readonly parameters: number;
  readonly sizeBytes: number;
  /** Tokens that end a generation (the model may have several). */
  readonly endTokens: readonly number[];
  /** Text of the beginning-of-sequence token, or null. */
  readonly bosText: string | null;
  readonly eosText: string | null;
  /** Texts of all control and end tokens: what `parseSpecial` turns into one token that a message must not hold. */
  readonly specialTexts: readonly string[];
  /** `tokenizer.chat_template` of the file, or null. */
  readonly chatTemplate: string | null;
  /** All scalar GGUF metadata as text. */
  readonly metadata: Readonly<Record<string, string>>;
}

/**
 * The bytes of every token. Token i's bytes are `bytes.subarray(offsets[i], offsets[i + 1])`; a control token has none
 * (`<|im_end|>` gives no text), so concatenating pieces gives exactly the text that a client may see.
 */
export interface PieceTable {
  /** Length vocabSize + 1. */
  readonly offsets: Uint32Array;
  readonly bytes: Uint8Array;
}

export interface TokenizeOptions {
  /** Parse special tokens such as `<|im_start|>` in the text (true for a rendered chat template). Default false. */
  readonly parseSpecial?: boolean;
  /** Add bos/eos as the model's metadata asks. Default false. */
  readonly addSpecial?: boolean;
}

/** A loaded model. Weights are shared by all its decoders. After close() only `info` can be read; the rest is ERR_CLOSED. */
export interface Model {
  readonly info: ModelInfo;
  /** Token ids of a text, computed off the JavaScript thread. Rejects, never throws. */
  tokenize(text: string, options?: TokenizeOptions): Promise<Int32Array>;
  /** The same, on the calling thread: for short texts, which take less time than handing them to another thread. Throws. */
  tokenizeSync(text: string, options?: TokenizeOptions): Int32Array;
  /** Computed once; later calls give the same object. */
  pieces(): PieceTable;
  /**
   * Allocates the KV cache and starts the decode thread; blocks for as long as the allocation takes. Throws
   * ERR_INVALID_ARGUMENT (also for a KV type that the model's head size rules out, and after a vocabOnly load),
   * ERR_OUT_OF_MEMORY, ERR_CLOSED, ERR_NOT_A_MODEL (no decoder-only language model).
   */
  createDecoder(options: DecoderOptions): Decoder;
  /**
   * Gives up the weights; they are freed when the last decoder that uses them is closed too. Does not wait for those decoders:
   * their turns go on. Idempotent.
   */
  close(): Promise<void>;
}

export interface DecoderOptions {
  /** Sequences decoded together, 1..64. 1 is the unbatched decoder. Default 1. */
  readonly slots?: number;
  /** Tokens a slot can hold (prompt plus answer), at least 2. Default and most: the trained context. */
  readonly contextTokens?: number;
  readonly kvType?: KvType;
  /** Compute threads on CPU devices, 1..512. Default 1. */
  readonly threads?: number;
  /** Largest number of prompt tokens in one step, 1..contextTokens; between steps every slot that decodes gets its token. Default 256, or contextTokens if that is less. */
  readonly prefillChunkTokens?: number;
  /**
   * Everything that happened since the last call, in order. Called on the JavaScript thread: at once, but for tokens that follow others
   * within a millisecond, which come together. Events of one turn are
   * `resume? prefill* token* done`, or end in one `error` instead of `done`; `done` or `error` comes exactly once and last. A slot
   * is idle when its `done` or `error` is delivered, so the next turn may start inside the call. An exception thrown here becomes
   * an uncaught exception; the decoder goes on.
   */
  readonly onEvents: (events: readonly DecoderEvent[]) => void;
}

/**
 * Sampling parameters; absent means neutral. With no temperature, or 0, the choice is greedy (bias and penalties still count).
 * Penalties look at the tokens that this turn sampled, not at its prompt.
 */
export interface Sampling {
  readonly temperature?: number; // >= 0
  readonly topP?: number; // (0, 1]
  readonly topK?: number; // >= 0; 0 = off
  readonly minP?: number; // [0, 1]
  readonly penaltyRepeat?: number; // > 0; 1 = off
  readonly penaltyFreq?: number;
  readonly penaltyPresent?: number;
  readonly penaltyLastN?: number; // -1 = the whole context; default 64
  readonly seed?: number; // 0..2^32-1; absent = a random one; the last two of the range draw alike
  readonly logitBias?: ReadonlyArray<readonly [token: number, bias: number]>;
}

export interface TurnOptions {
  /** Caller's own number of the turn, 0..2^53-1, not in use now. */
  readonly turn: number;
  /** 0..slots-1, idle. */
  readonly slot: number;
  /** Prompt token ids, 1..contextTokens-1 of them, each below vocabSize. Copied. */
  readonly prompt: Int32Array | readonly number[];
  /** Most tokens to generate, >= 1. Fewer when the slot is full (finish `length`). */
  readonly maxTokens: number;
  readonly sampling?: Sampling;
  /** Partition of the prefix cache: the slot's KV is reused only when it was made under the same salt. Default "". */
  readonly salt?: string;
}

export interface Decoder {
  readonly slots: number;
  readonly contextTokens: number;
  /** Starts a turn. Throws on bad arguments or state and then no event follows. Never blocks on the decode. */
  run(options: TurnOptions): void;
  /** Asks the turn to end; its `done` follows with finish `cancel` unless it had ended. An unknown turn is ignored. */
  stop(turn: number): void;
  /** Ends all turns (each still gets its `done`, finish `cancel`), joins the thread, frees the KV cache. Idempotent. */
  close(): Promise<void>;
}

export interface TurnStatistics {
  /** Tokens sampled, the end token included. */
  readonly generated: number;
  readonly promptTokens: number;
  readonly promptMs: number;
  readonly decodeMs: number;
  readonly finish: "stop" | "length" | "cancel" | "nonfinite" | "error";
  /** Prompt tokens taken from the slot's KV cache. */
  readonly reused: number;
  /** Prompt tokens really computed; smaller than promptTokens - reused when cancelled mid-prefill. */
  readonly promptRead: number;
}

export type DecoderEvent =
  | { readonly type: "resume"; readonly turn: number; readonly slot: number; readonly reused: number }
  | {
      readonly type: "prefill";
      readonly turn: number;
      readonly slot: number;
      /** Prompt tokens in the cache now, of total. */
      readonly position: number;
      readonly total: number;
      /** Since this turn's previous chunk, or its start: also the time that its next chunk may be expected to take. */
      readonly ms: number;
      /** Of this chunk. */
      readonly tokensPerSecond: number;
    }
  | { readonly type: "token"; readonly turn: number; readonly slot: number; readonly token: number }
  | { readonly type: "done"; readonly turn: number; readonly slot: number; readonly statistics: TurnStatistics }
  | {
      readonly type: "error";
      readonly turn: number;
      readonly slot: number;
      readonly code: NativeErrorCode;
      readonly message: string;
    };

/** Devices of every backend that loads here. The CPU is always among them. */
export function listDevices(): Device[];
/** The backends that were looked for, loaded or not, with the reason. */
export function listBackends(): Backend[];
/** Loads a model off the JavaScript thread. Rejects with ERR_FILE_NOT_FOUND, ERR_NOT_A_MODEL, ERR_UNKNOWN_DEVICE, ERR_OUT_OF_MEMORY, ERR_CANCELLED. */
export function loadModel(options: LoadOptions): Promise<Model>;
/**
 * Where llama.cpp's log lines go. Default: lines of level `error` to stderr, but those that end up in the message of an error of
 * this module. Never stdout. Called on the JavaScript thread of whoever set it, with single lines; each thread may have its own.
 * Null restores the default.
 */
export function setLogHandler(
  handler: ((level: "debug" | "info" | "warn" | "error", text: string) => void) | null,
): void;
/** Pins the whole process (threads made later included) to these CPU cores. Throws ERR_INVALID_ARGUMENT for a core that is not there. */
export function setCpuAffinity(cores: readonly number[]): void;
/** Version of llama.cpp in use, in its own words, e.g. `0.4.0-dev`. */
export const llamaVersion: string;
