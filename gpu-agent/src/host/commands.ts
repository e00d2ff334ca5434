/** The commands that an agent writes to a replica host, parsed. Pure; the other half of the grammar in replicas/wire.ts. */
import { type EngineSampling, samplingKeys } from "../replicas/wire.ts";

export type HostCommand =
  | {
      readonly kind: "generate";
      readonly slot: number;
      readonly turn: number;
      readonly maxTokens: number;
      readonly sampling: EngineSampling;
      readonly salt: string;
      readonly prompt: Int32Array;
    }
  | { readonly kind: "auxiliary"; readonly slot: number; readonly turn: number }
  | { readonly kind: "stop"; readonly slot: number; readonly turn: number }
  | { readonly kind: "quit" }
  | { readonly kind: "unknown"; readonly word: string }
  | { readonly kind: "invalid"; readonly slot: number; readonly turn: number; readonly reason: string };

/** A Map, for the keys come from outside: an object would know `constructor` too. */
const propertyOfKey = new Map<string, (typeof samplingKeys)[number][1]>(samplingKeys);

const parseBias = (value: string): [number, number][] | undefined => {
  const pairs: [number, number][] = [];
  for (const pair of value.split(",")) {
    const [id, by, ...more] = pair.split(":").map(Number);
    if (id === undefined || by === undefined || more.length > 0 || !Number.isInteger(id) || Number.isNaN(by))
      return undefined;
    pairs.push([id, by]);
  }
  return pairs;
};

const parseIds = (text: string): Int32Array | undefined => {
  const words = text.split(",");
  const ids = new Int32Array(words.length);
  for (const [at, word] of words.entries()) {
    const id = Number(word);
    if (!/^\d{1,9}$/.test(word)) return undefined;
    ids[at] = id;
  }
  return ids;
};

/** Parses one command line (without its LF). Never throws. */
export const parseCommand = (line: string): HostCommand => {
  const words = line.split(" ").filter((word) => word !== "");
  const head = words.shift() ?? "";
  const turnWord = words.find((word) => /^turn=\d{1,15}$/.test(word));
  const turn = turnWord === undefined ? -1 : Number(turnWord.slice(5));
  const batched = /^B(GEN|GENI|STOP)$/.test(head);
  const slotWord = batched ? words.shift() : "0";
  const slot = slotWord !== undefined && /^\d{1,4}$/.test(slotWord) ? Number(slotWord) : -1;
  const invalid = (reason: string): HostCommand => ({ kind: "invalid", slot, turn, reason });
  switch (batched ? head.slice(1) : head) {
    case "QUIT":
      return { kind: "quit" };
    case "STOP":
      return { kind: "stop", slot, turn };
    case "GENI":
      return { kind: "auxiliary", slot, turn };
    case "GEN":
      break;
    default:
      return { kind: "unknown", word: head };
  }
  if (slot < 0) return invalid("the slot is not a number");
  const maxWord = words.shift() ?? "";
  if (!/^[1-9]\d{0,8}$/.test(maxWord))
    return invalid(`the most tokens to make must be a number from 1 on, not '${maxWord}'`);
  const sampling: { -readonly [K in keyof EngineSampling]: EngineSampling[K] } = {};
  let salt = "";
  let ids: string | undefined;
  for (const word of words) {
    const cut = word.indexOf("=");
    if (cut === -1) {
      ids = word;
      break;
    }
    const [key, value] = [word.slice(0, cut), word.slice(cut + 1)];
    const property = propertyOfKey.get(key);
    if (property !== undefined) {
      const number = Number(value);
      if (value === "" || !Number.isFinite(number)) return invalid(`${key} is not a number: '${value.slice(0, 40)}'`);
      sampling[property] = number;
    } else if (key === "logit_bias") {
      const bias = parseBias(value);
      if (bias === undefined) return invalid("logit_bias must be id:bias pairs");
      sampling.logitBias = bias;
    } else if (key === "salt") salt = value;
  }
  const prompt = ids === undefined ? undefined : parseIds(ids);
  if (prompt === undefined) return invalid("the prompt must be token ids with commas between");
  return { kind: "generate", slot, turn, maxTokens: Number(maxWord), sampling, salt, prompt };
};
