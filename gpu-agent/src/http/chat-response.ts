/**
 * Builds what a chat completion answers: the events of a stream and the one body of a plain request (OpenAI's chat completion and
 * chat completion chunk objects), with the engine's timings as an own field.
 *
 * A stream's content events differ in their text alone, so their JSON around it is made once and only the text is encoded per token.
 * JSON.stringify leaves UTF-8 unescaped and escapes a lone surrogate, so every event is valid whatever the text.
 * Deliberately absent: sockets, clocks and counting; ids, times and figures are passed in.
 */
import { type DoneStatistics, type ErrorCode, openAiErrorBody } from "@lockgate/shared-types";
import { DONE_EVENT, dataEvent } from "./sse.ts";

export type FinishReason = "stop" | "length";

/** What every object of one answer carries. */
export interface ResponseIdentity {
  /** `chatcmpl-…`, unique to the turn. */
  readonly id: string;
  readonly model: string;
  /** Unix time, seconds. */
  readonly created: number;
  /** Names the model file and engine that answered. */
  readonly systemFingerprint: string;
}

/** Token counts as the client is billed for them. */
export interface TurnUsage {
  readonly promptTokens: number;
  /** Tokens that the caller consumed, the end token included. */
  readonly completionTokens: number;
  /** Prompt tokens that came from the KV cache; null when no DONE told. */
  readonly cachedTokens: number | null;
}

export interface UsageBody {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  /** Absent for a turn without a DONE: nothing is made up. */
  readonly prompt_tokens_details?: { readonly cached_tokens: number };
}

/** The engine's own figures of the turn: tokens and ms. `predicted_n` may exceed `completion_tokens` when the engine ran ahead. */
export interface Timings {
  readonly prompt_n: number;
  readonly prompt_ms: number;
  readonly predicted_n: number;
  readonly predicted_ms: number;
  readonly cache_n: number;
  readonly draft_n: number;
  readonly draft_n_accepted: number;
}

const usageBody = ({ promptTokens, completionTokens, cachedTokens }: TurnUsage): UsageBody => ({
  prompt_tokens: promptTokens,
  completion_tokens: completionTokens,
  total_tokens: promptTokens + completionTokens,
  ...(cachedTokens === null ? {} : { prompt_tokens_details: { cached_tokens: cachedTokens } }),
});

/** A turn without a DONE has no timings, and says so. */
const timingsBody = (statistics: DoneStatistics | null): Timings | null =>
  statistics && {
    prompt_n: statistics.promptRead,
    prompt_ms: statistics.promptMs,
    predicted_n: statistics.generated,
    predicted_ms: statistics.decodeMs,
    cache_n: statistics.reused,
    draft_n: statistics.draftsOffered,
    draft_n_accepted: statistics.draftsAccepted,
  };

const objectHead = ({ id, model, created, systemFingerprint }: ResponseIdentity, object: string) => ({
  id,
  object,
  created,
  model,
  system_fingerprint: systemFingerprint,
});

/** The JSON body of a request without `stream`. */
export const completionBody = (
  answer: ResponseIdentity & {
    readonly text: string;
    readonly finishReason: FinishReason;
    readonly usage: TurnUsage;
    readonly statistics: DoneStatistics | null;
  },
): string =>
  JSON.stringify({
    ...objectHead(answer, "chat.completion"),
    choices: [
      {
        index: 0,
        message: { role: "assistant", content: answer.text, refusal: null },
        logprobs: null,
        finish_reason: answer.finishReason,
      },
    ],
    usage: usageBody(answer.usage),
    timings: timingsBody(answer.statistics),
  });

/** Writes the events of one stream; each method returns one complete event. Order: role, content…, finish, usage if asked for, done. */
export interface ChunkWriter {
  role(): string;
  content(text: string): string;
  /** Ends the answer; `statistics` become its timings. */
  finish(reason: FinishReason, statistics: DoneStatistics | null): string;
  /** Only for a client that asked with `include_usage`. */
  usage(usage: TurnUsage): string;
  /** Ends the stream instead of finish, usage and done. */
  error(code: ErrorCode, message: string): string;
  done(): string;
}

/** Stands for the text while the frame of a content event is made; holds nothing that JSON escapes. */
const TEXT_MARK = "{text}";

/** A writer for one turn. With `includeUsage` every chunk but the usage chunk says `usage: null`, as OpenAI's do. */
export const createChunkWriter = (options: ResponseIdentity & { readonly includeUsage: boolean }): ChunkWriter => {
  const head = objectHead(options, "chat.completion.chunk");
  const usageField = options.includeUsage ? { usage: null } : {};
  const chunk = (delta: Readonly<Record<string, unknown>>, finishReason: FinishReason | null, extra = {}): string =>
    dataEvent(
      JSON.stringify({
        ...head,
        choices: [{ index: 0, delta, logprobs: null, finish_reason: finishReason }],
        ...usageField,
        ...extra,
      }),
    );

  const frame = chunk({ content: TEXT_MARK }, null);
  const mark = JSON.stringify(TEXT_MARK);
  // The last one: a model's name comes before it and may say anything.
  const markAt = frame.lastIndexOf(mark);
  const before = frame.slice(0, markAt);
  const after = frame.slice(markAt + mark.length);

  return {
    role: () => chunk({ role: "assistant", content: "", refusal: null }, null),
    content: (text) => before + JSON.stringify(text) + after,
    finish: (reason, statistics) => chunk({}, reason, { timings: timingsBody(statistics) }),
    usage: (usage) => dataEvent(JSON.stringify({ ...head, choices: [], usage: usageBody(usage) })),
    error: (code, message) => dataEvent(JSON.stringify(openAiErrorBody(code, message))),
    done: () => DONE_EVENT,
  };
};
