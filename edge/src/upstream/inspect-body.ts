/**
 * What the edge has to know of a request's body before an agent sees it: which model, how many tokens at most, which conversation. Pure.
 * The bytes go on unchanged; all other fields are the agent's to judge.
 *
 * Of a key that comes twice JSON.parse takes the last, here as at the agent, and the agent compares the model with the one that is signed.
 */

/** Deepest nesting of arrays and objects; the deepest body that the API has use for is about 10. */
export const MAX_JSON_DEPTH = 64;
/** Most values in one body: a prompt of 128 Ki token ids fits, and what the parser builds of it costs tens of ms, not a second. */
export const MAX_JSON_VALUES = 262_144;
/** How much of a conversation's beginning tells it from others, characters. */
export const MAX_CONVERSATION_CHARS = 4_096;

export interface BodyView {
  /** As the client wrote it; undefined where there is no text. */
  readonly model: string | undefined;
  /** What the client allows for the answer; undefined where it does not say. */
  readonly maxTokens: number | undefined;
  /** The beginning that all requests of one conversation share: what stands before and in the first message of the user. */
  readonly conversation: string;
}

export type BodyInspection =
  | { readonly ok: true; readonly view: BodyView }
  | {
      readonly ok: false;
      readonly code: "invalid_json";
      readonly cause: "too_deep" | "too_many_values" | "not_utf8" | "not_json" | "not_an_object";
    };

const [QUOTE, COMMA, BACKSLASH] = [0x22, 0x2c, 0x5c];
const [OPEN_BRACKET, CLOSE_BRACKET, OPEN_BRACE, CLOSE_BRACE] = [0x5b, 0x5d, 0x7b, 0x7d];

/** What is wrong with the shape of a JSON text, in one pass over its bytes, before a parser would build it all. */
export const shapeFault = (
  bytes: Uint8Array,
  maxDepth: number,
  maxValues: number,
): "too_deep" | "too_many_values" | undefined => {
  let depth = 0;
  // Each value but the first of its list or object follows a comma, and the first one an opening.
  let values = 1;
  let inString = false;
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at];
    if (inString) {
      if (byte === BACKSLASH) at += 1;
      else if (byte === QUOTE) inString = false;
    } else if (byte === QUOTE) inString = true;
    else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
      depth += 1;
      values += 1;
      if (depth > maxDepth) return "too_deep";
    } else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) depth -= 1;
    else if (byte === COMMA) values += 1;
    if (values > maxValues) return "too_many_values";
  }
  return undefined;
};

type JsonObject = Readonly<Record<string, unknown>>;

const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const countOf = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isSafeInteger(value) && value > 0 ? value : undefined;

const beginningOf = (value: unknown): unknown =>
  typeof value === "string" ? value.slice(0, MAX_CONVERSATION_CHARS) : value;

/** The text that stays as it is while a conversation grows. */
const conversationOf = ({ system, messages, prompt }: JsonObject): string => {
  const parts: unknown[] = [beginningOf(system), beginningOf(prompt)];
  if (Array.isArray(messages)) {
    for (const message of messages as readonly unknown[]) {
      if (!isObject(message)) break;
      parts.push(beginningOf(message.role), beginningOf(message.content));
      if (message.role === "user") break;
    }
  }
  return JSON.stringify(parts).slice(0, MAX_CONVERSATION_CHARS);
};

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false });

const parse = (bytes: Uint8Array): { readonly value: unknown } | "not_utf8" | "not_json" => {
  let text: string;
  try {
    text = utf8.decode(bytes);
  } catch {
    return "not_utf8";
  }
  try {
    return { value: JSON.parse(text) };
  } catch {
    return "not_json";
  }
};

/** Looks into a JSON body. Its size is bounded where it is read. */
export const inspectBody = (bytes: Uint8Array): BodyInspection => {
  const fault = shapeFault(bytes, MAX_JSON_DEPTH, MAX_JSON_VALUES);
  if (fault !== undefined) return { ok: false, code: "invalid_json", cause: fault };
  const parsed = parse(bytes);
  if (typeof parsed === "string") return { ok: false, code: "invalid_json", cause: parsed };
  const { value } = parsed;
  if (!isObject(value)) return { ok: false, code: "invalid_json", cause: "not_an_object" };
  return {
    ok: true,
    view: {
      model: typeof value.model === "string" ? value.model : undefined,
      maxTokens: countOf(value.max_completion_tokens ?? value.max_tokens),
      conversation: conversationOf(value),
    },
  };
};
