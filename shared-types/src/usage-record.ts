/**
 * The usage record: what one turn used, as the agent tells the edge for its ledger. Pure schema; no clock, no storage.
 *
 * A turn is one generation on one replica. A request that moved to another replica before its first token has several turns, numbered
 * from 1, and its bill is the sum of theirs: the first three counts are therefore what the caller owes for this turn, 0 where the turn
 * came to nothing for a reason of ours. What the engine really did stands beside them in `engine`.
 * Deliberately absent: prompts, answers, and any key (an API key is named by its id).
 */
import * as z from "zod";
import { type ErrorCode, errorCodes } from "./error-codes.ts";
import { identifierSchema } from "./identifier.ts";
import { lockgateHeadersSchema } from "./signed-headers.ts";

/** Path of the edge's endpoint for batches of records. */
export const USAGE_PATH = "/internal/v1/usage";
/** Most records of one batch. */
export const MAX_USAGE_BATCH = 128;

const count = z.number().int().nonnegative();
const milliseconds = z.number().nonnegative();

/** The engine's own figures, from the turn's DONE. */
const engineFiguresSchema = z.object({
  /** May exceed completion_tokens: the engine had run ahead of a caller that was stopped. */
  generated_tokens: count,
  prompt_tokens: count,
  /** Prompt tokens really computed; and those taken from the KV cache. */
  prompt_read_tokens: count,
  reused_tokens: count,
  prompt_ms: milliseconds,
  decode_ms: milliseconds,
  finish: z.enum(["stop", "length", "cancel", "nonfinite", "error"]),
  drafts_accepted: count,
  drafts_offered: count,
});

export const usageRecordSchema = z
  .object({
    /** `<request id>.<attempt>`: the key under which a ledger books it once. */
    turn_id: z.string().max(80),
    request_id: lockgateHeadersSchema.shape.requestId,
    /** 1 for a request's first turn. */
    attempt: z.number().int().min(1).max(64),
    /** Id of the API key; null for a caller with the agent's local key. */
    key_id: lockgateHeadersSchema.shape.keyId.nullable(),
    agent_id: identifierSchema,
    model: z.string().min(1).max(4_096),
    /** Null for a turn that ended before it had one. */
    replica: count.nullable(),
    /** Whether the request is over at this agent: false where a turn that came to nothing moves to another replica. */
    final: z.boolean(),
    outcome: z.enum(["finished", "failed", "aborted"]),
    /** Why a finished turn ended. */
    finish_reason: z.enum(["stop", "length"]).nullable(),
    /** Code of a failed turn. */
    error_code: z.enum(Object.keys(errorCodes) as [ErrorCode, ...ErrorCode[]]).nullable(),
    /** What the caller owes for: the prompt, how much of it came from the cache, and the tokens that were consumed. */
    prompt_tokens: count,
    cached_tokens: count,
    completion_tokens: count,
    /** Unix time, ms: when the turn took its place in the queue, and when it ended. */
    started_at_ms: count,
    ended_at_ms: count,
    /** Null when no DONE was read. */
    engine: engineFiguresSchema.nullable(),
  })
  .refine(({ turn_id, request_id, attempt }) => turn_id === turnIdOf(request_id, attempt), "turn_id is not its parts")
  .refine(({ final, outcome }) => final || outcome === "failed", "only a failed turn can have a successor")
  .refine(({ cached_tokens, prompt_tokens }) => cached_tokens <= prompt_tokens, "more cached than prompt tokens");
export type UsageRecord = Readonly<z.infer<typeof usageRecordSchema>>;

/** Body of a POST to USAGE_PATH: records in the order in which their turns ended. */
export const usageBatchSchema = z.object({
  agent_id: identifierSchema,
  records: z.array(usageRecordSchema).min(1).max(MAX_USAGE_BATCH),
});
export type UsageBatch = Readonly<z.infer<typeof usageBatchSchema>>;

/** The id of a request's `attempt`-th turn. */
export const turnIdOf = (requestId: string, attempt: number): string => `${requestId}.${attempt}`;
