/**
 * The grammar of the engine protocol: one line in, one typed message out, and the commands that go the other way.
 *
 * Pure text work: no I/O, no clock, no state between lines. Cutting a byte stream into lines is the reader's job (reader.ts), which
 * also has a fast path for token lines; both must agree, and a test holds them together.
 */
import type { DoneStatistics, Finish } from "@lockgate/shared-types";
import { formatIds } from "./format-ids.ts";

/** Numbers of slot and turn that a line names; -1 where it names none (unbatched, untagged). */
export interface LineAddress {
  readonly slot: number;
  readonly turn: number;
}

export type EngineMessage =
  | { readonly kind: "info"; readonly values: ReadonlyMap<string, string | number> }
  | { readonly kind: "ready"; readonly maxContext: number; readonly capabilities: Capabilities }
  | ({ readonly kind: "resume"; readonly reused: number } & LineAddress)
  | ({ readonly kind: "prefill"; readonly position: number; readonly total: number; readonly ms: number } & LineAddress)
  | ({ readonly kind: "token"; readonly id: number } & LineAddress)
  | ({ readonly kind: "done"; readonly statistics: DoneStatistics } & LineAddress)
  | ({ readonly kind: "error"; readonly message: string } & LineAddress)
  /** A first word that the grammar does not know: skipped, but a sign of life. */
  | { readonly kind: "unknown"; readonly line: string }
  /** A known first word with a body that does not parse: the engine broke the grammar. */
  | { readonly kind: "malformed"; readonly line: string; readonly reason: string };

export interface Capabilities {
  /** Honours STOP. */
  readonly stop: boolean;
  /** Tags every line with its turn. */
  readonly turns: boolean;
  /** Slots of batch mode; 0 for an unbatched engine. */
  readonly slots: number;
}

/** Most slots that an engine may announce; each is a lane of the agent's memory. */
export const MAX_SLOTS = 1024;

/** Sampling as the engine's keys spell it; absent means the engine's neutral value. */
export interface EngineSampling {
  readonly temperature?: number | undefined;
  readonly topP?: number | undefined;
  readonly topK?: number | undefined;
  readonly minP?: number | undefined;
  readonly penaltyRepeat?: number | undefined;
  readonly penaltyFreq?: number | undefined;
  readonly penaltyPresent?: number | undefined;
  readonly penaltyLastN?: number | undefined;
  readonly seed?: number | undefined;
  readonly logitBias?: ReadonlyArray<readonly [token: number, bias: number]> | undefined;
}

/** One generation as it goes to an engine. */
export interface EngineRequest {
  /** Token ids, each 0 to 2^31 - 1. */
  readonly prompt: readonly number[] | Int32Array;
  readonly maxTokens: number;
  readonly sampling: EngineSampling;
  /** Partition of the prefix cache, lower-case hex; "" for none. */
  readonly salt: string;
  /** Auxiliary request: a file of embeddings (GENI). */
  readonly embeddingsFile?: string | undefined;
}

/** Sampling keys on the wire whose value is one number, with their property; in the order they are written. */
export const samplingKeys = [
  ["temperature", "temperature"],
  ["top_p", "topP"],
  ["top_k", "topK"],
  ["min_p", "minP"],
  ["penalty_repeat", "penaltyRepeat"],
  ["penalty_freq", "penaltyFreq"],
  ["penalty_present", "penaltyPresent"],
  ["penalty_last_n", "penaltyLastN"],
  ["seed", "seed"],
] as const;

const finishes: ReadonlySet<string> = new Set<Finish>(["stop", "length", "cancel", "nonfinite", "error"]);

/** Word counts of DONE that engines of this family have sent; a longer line is one of these plus an unknown suffix. */
const doneWordCounts = [6, 9, 11, 14, 15, 16];
const doneLongestKnown = 16;

const integer = /^-?\d+$/;
const decimal = /^-?\d+(\.\d+)?([eE][+-]?\d+)?$/;

const asInteger = (word: string | undefined): number => (word !== undefined && integer.test(word) ? Number(word) : NaN);
const asDecimal = (word: string | undefined): number => {
  const value = word !== undefined && decimal.test(word) ? Number(word) : NaN;
  return Number.isFinite(value) ? value : NaN; // 1e999 has the form of a number; as a time it would be a wait without end
};
const asCount = (word: string | undefined): number => {
  const value = asInteger(word);
  return Number.isSafeInteger(value) && value >= 0 ? value : NaN;
};

/**
 * Parses the words behind DONE. The historic short forms leave the later fields 0.
 * Returns a fresh frozen object, or a text that says what does not parse.
 */
export const parseDone = (words: readonly string[]): DoneStatistics | string => {
  const count = words.length + 1;
  if (count < doneLongestKnown && !doneWordCounts.includes(count)) return `DONE of ${count} words`;
  const counts = (index: number): number => (index < words.length ? asCount(words[index]) : 0);
  const numbers = (index: number): number => (index < words.length ? asDecimal(words[index]) : 0);
  const finish = words[4] ?? "";
  if (!finishes.has(finish)) return `DONE with the finish '${finish}'`;
  const promptTokens = counts(1);
  const reused = counts(7);
  const statistics: DoneStatistics = {
    generated: counts(0),
    promptTokens,
    promptMs: numbers(2),
    decodeMs: numbers(3),
    finish: finish as Finish,
    draftsAccepted: counts(5),
    draftsOffered: counts(6),
    reused,
    expertHits: counts(8),
    expertLookups: counts(9),
    ramBlobs: counts(10),
    fileBlobs: counts(11),
    fileMb: numbers(12),
    promptRead: words.length > 13 ? counts(13) : promptTokens - reused,
    offloaded: counts(14),
  };
  for (const [name, value] of Object.entries(statistics)) {
    if (typeof value === "number" && !(value >= 0)) return `DONE whose ${name} is not a number`;
  }
  return Object.freeze(statistics);
};

const parseCapabilities = (words: readonly string[]): Capabilities => {
  const slots = words.map((word) => /^slots=(\d+)$/.exec(word)?.[1]).find((value) => value !== undefined);
  return {
    stop: words.includes("stop"),
    turns: words.includes("turns"),
    slots: slots === undefined ? 0 : Number(slots),
  };
};

const parseInfo = (words: readonly string[]): ReadonlyMap<string, string | number> => {
  const values = new Map<string, string | number>();
  for (const word of words) {
    const cut = word.indexOf("=");
    if (cut <= 0) continue;
    const value = word.slice(cut + 1);
    values.set(word.slice(0, cut), integer.test(value) && Number.isSafeInteger(Number(value)) ? Number(value) : value);
  }
  return values;
};

const turnTag = / turn=(\d{1,15})$/;

/** Parses one line (without its LF). Never throws. */
export const parseLine = (line: string): EngineMessage => {
  const malformed = (reason: string): EngineMessage => ({ kind: "malformed", line: line.slice(0, 200), reason });
  const tag = turnTag.exec(line);
  const turn = tag === null ? -1 : Number(tag[1]);
  const text = tag === null ? line : line.slice(0, tag.index);
  const words = text.split(" ").filter((word) => word !== "");
  let head = words.shift() ?? "";
  let slot = -1;
  if (/^B(RESUME|PP|T|DONE|ERR)$/.test(head)) {
    slot = asCount(words.shift());
    if (Number.isNaN(slot)) return malformed(`${head} without a slot number`);
    head = head.slice(1);
  }
  switch (head) {
    case "INFO":
      return { kind: "info", values: parseInfo(words) };
    case "READY": {
      const maxContext = asCount(words[0]);
      if (!(maxContext > 0)) return malformed("READY without a context length");
      const capabilities = parseCapabilities(words.slice(1));
      if (capabilities.slots > MAX_SLOTS) return malformed(`READY with more than ${MAX_SLOTS} slots`);
      return { kind: "ready", maxContext, capabilities };
    }
    case "RESUME": {
      const reused = asCount(words[0]);
      return Number.isNaN(reused) ? malformed("RESUME without a count") : { kind: "resume", reused, slot, turn };
    }
    case "PP": {
      const [position, total, ms] = [asCount(words[0]), asCount(words[1]), asDecimal(words[2])];
      if (Number.isNaN(position) || Number.isNaN(total) || !(ms >= 0))
        return malformed("PP whose numbers do not parse");
      return { kind: "prefill", position, total, ms, slot, turn };
    }
    case "T": {
      const id = asCount(words[0]);
      return Number.isNaN(id) ? malformed("T without a token id") : { kind: "token", id, slot, turn };
    }
    case "DONE": {
      const statistics = parseDone(words.filter((word) => !word.includes("=")));
      return typeof statistics === "string" ? malformed(statistics) : { kind: "done", statistics, slot, turn };
    }
    case "ERR": {
      const afterHead = text.slice(text.indexOf("ERR") + 3).trim();
      return { kind: "error", message: slot >= 0 ? afterHead.replace(/^\d+ ?/, "") : afterHead, slot, turn };
    }
    default:
      return { kind: "unknown", line };
  }
};

/** How a command addresses a slot and a turn; both optional, as the engine's capabilities have it. */
export interface CommandAddress {
  /** Slot of batch mode; undefined for an unbatched engine. */
  readonly slot: number | undefined;
  /** Turn number for engines that tag; undefined otherwise. */
  readonly turn: number | undefined;
}

/** The GEN, BGEN or GENI line of a request, LF included. */
export const formatGenerate = (request: EngineRequest, address: CommandAddress): string => {
  let line = request.embeddingsFile === undefined ? "GEN" : "GENI";
  if (address.slot !== undefined) line = `B${line} ${address.slot}`;
  line += ` ${request.maxTokens}`;
  for (const [key, property] of samplingKeys) {
    const value = request.sampling[property];
    if (value !== undefined) line += ` ${key}=${value}`;
  }
  const bias = request.sampling.logitBias;
  if (bias !== undefined && bias.length > 0) line += ` logit_bias=${bias.map(([id, by]) => `${id}:${by}`).join(",")}`;
  if (request.salt !== "") line += ` salt=${request.salt}`;
  if (address.turn !== undefined) line += ` turn=${address.turn}`;
  if (request.embeddingsFile !== undefined) line += ` ${request.embeddingsFile}`;
  return `${line} ${formatIds(request.prompt)}\n`;
};

/** The STOP or BSTOP line, LF included. */
export const formatStop = (address: CommandAddress): string => {
  const head = address.slot === undefined ? "STOP" : `BSTOP ${address.slot}`;
  return address.turn === undefined ? `${head}\n` : `${head} turn=${address.turn}\n`;
};

export const quitLine = "QUIT\n";
