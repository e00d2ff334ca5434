/**
 * Argument checks: what the caller gave against index.d.ts. Each gives the value back, or the default where it is absent,
 * or throws ERR_INVALID_ARGUMENT naming the argument. State (closed, busy, sizes of the model) is the addon's to check.
 */
import { invalidArgument } from "./native-error.js";

const INT32_MAX = 2 ** 31 - 1;
const UINT32_MAX = 2 ** 32 - 1;

/** An object of options. */
export function objectOf(name, value) {
  if (typeof value !== "object" || value === null) {
    throw invalidArgument(name, "an object");
  }
  return value;
}

export function functionOf(name, value) {
  if (typeof value !== "function") {
    throw invalidArgument(name, "a function");
  }
  return value;
}

export function textOf(name, value, absent) {
  if (value === undefined && absent !== undefined) {
    return absent;
  }
  if (typeof value !== "string") {
    throw invalidArgument(name, "a string");
  }
  return value;
}

export function flagOf(name, value) {
  if (value !== undefined && typeof value !== "boolean") {
    throw invalidArgument(name, "a boolean");
  }
  return value === true;
}

export function integerOf(name, value, min, max, absent) {
  if (value === undefined && absent !== undefined) {
    return absent;
  }
  if (!Number.isInteger(value) || value < min || value > max) {
    throw invalidArgument(name, `an integer from ${min} to ${max}`);
  }
  return value;
}

function numberOf(name, value, absent, accepts, expected) {
  if (value === undefined) {
    return absent;
  }
  if (typeof value !== "number" || !Number.isFinite(value) || !accepts(value)) {
    throw invalidArgument(name, expected);
  }
  return value;
}

/** Token ids as an Int32Array. Whether they are in the vocabulary is the addon's to check. */
export function tokensOf(name, value) {
  if (value instanceof Int32Array) {
    return value;
  }
  if (!Array.isArray(value)) {
    throw invalidArgument(name, "an Int32Array or an array of token ids");
  }
  const wrong = value.findIndex((token) => !Number.isInteger(token) || token < 0 || token > INT32_MAX);
  if (wrong >= 0) {
    throw invalidArgument(`${name}[${wrong}]`, "a token id");
  }
  return Int32Array.from(value);
}

export function textsOf(name, value) {
  if (!Array.isArray(value) || value.length === 0 || !value.every((item) => typeof item === "string")) {
    throw invalidArgument(name, "an array of at least one string");
  }
  return value;
}

function logitBiasOf(name, value) {
  if (value === undefined) {
    return [];
  }
  const isPair = (item) =>
    Array.isArray(item) &&
    item.length === 2 &&
    Number.isInteger(item[0]) &&
    item[0] >= 0 &&
    item[0] <= INT32_MAX &&
    Number.isFinite(item[1]);
  if (!Array.isArray(value) || !value.every(isPair)) {
    throw invalidArgument(name, "an array of [token id, finite number]");
  }
  return value;
}

/**
 * `Sampling` of index.d.ts with every field filled in.
 * @param {() => number} randomSeed gives 0..2^32-1 where the caller names no seed
 */
export function samplingOf(sampling, randomSeed) {
  const from = sampling === undefined ? {} : objectOf("sampling", sampling);
  const at = (field) => `sampling.${field}`;
  const any = () => true;
  return {
    temperature: numberOf(at("temperature"), from.temperature, 0, (x) => x >= 0, "a number of at least 0"),
    topP: numberOf(at("topP"), from.topP, 1, (x) => x > 0 && x <= 1, "a number over 0, at most 1"),
    topK: integerOf(at("topK"), from.topK, 0, INT32_MAX, 0),
    minP: numberOf(at("minP"), from.minP, 0, (x) => x >= 0 && x <= 1, "a number from 0 to 1"),
    penaltyRepeat: numberOf(at("penaltyRepeat"), from.penaltyRepeat, 1, (x) => x > 0, "a number over 0"),
    penaltyFreq: numberOf(at("penaltyFreq"), from.penaltyFreq, 0, any, "a finite number"),
    penaltyPresent: numberOf(at("penaltyPresent"), from.penaltyPresent, 0, any, "a finite number"),
    penaltyLastN: integerOf(at("penaltyLastN"), from.penaltyLastN, -1, INT32_MAX, 64),
    seed: integerOf(at("seed"), from.seed ?? randomSeed(), 0, UINT32_MAX),
    logitBias: logitBiasOf(at("logitBias"), from.logitBias),
  };
}
