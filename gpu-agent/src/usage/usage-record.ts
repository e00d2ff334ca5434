/**
 * Makes a turn's usage record out of its outcome. Pure: times and ids are passed in.
 *
 * The rule of what a caller owes for the prompt stands here alone. Deliberately absent: prices, and anything of another turn.
 */
import { type DoneStatistics, turnIdOf, type UsageRecord } from "@lockgate/shared-types";
import { NOWHERE, type TurnOutcome } from "../turn/run-turn.ts";

/** Whose turn it was. */
export interface MeteredRequest {
  readonly requestId: string;
  /** Id of the API key; null for a caller with the local key. */
  readonly keyId: string | null;
  readonly model: string;
  readonly promptTokens: number;
}

export interface TurnFacts {
  readonly request: MeteredRequest;
  readonly agentId: string;
  /** 1 for the request's first turn. */
  readonly attempt: number;
  /** Whether no further turn of the request follows. */
  readonly final: boolean;
  readonly outcome: TurnOutcome;
  /** Unix time, ms. */
  readonly startedAtMs: number;
  readonly endedAtMs: number;
}

/**
 * Prompt tokens that the caller owes for: all of them once the turn answered; those that were worked off when the caller went away
 * before; none for a turn that gave nothing for a reason of ours (another attempt may have, and it is the one that is paid).
 */
const owedPromptTokens = ({ promptTokens }: MeteredRequest, outcome: TurnOutcome): number => {
  if (outcome.kind === "finished" || outcome.completionTokens > 0) return promptTokens;
  if (outcome.kind === "failed" || outcome.statistics === null) return 0;
  return Math.min(promptTokens, outcome.statistics.reused + outcome.statistics.promptRead);
};

const engineFigures = (statistics: DoneStatistics): UsageRecord["engine"] => ({
  generated_tokens: statistics.generated,
  prompt_tokens: statistics.promptTokens,
  prompt_read_tokens: statistics.promptRead,
  reused_tokens: statistics.reused,
  prompt_ms: statistics.promptMs,
  decode_ms: statistics.decodeMs,
  finish: statistics.finish,
  drafts_accepted: statistics.draftsAccepted,
  drafts_offered: statistics.draftsOffered,
});

export const usageRecordOf = ({
  request,
  agentId,
  attempt,
  final,
  outcome,
  startedAtMs,
  endedAtMs,
}: TurnFacts): UsageRecord => {
  const promptTokens = owedPromptTokens(request, outcome);
  return {
    turn_id: turnIdOf(request.requestId, attempt),
    request_id: request.requestId,
    attempt,
    key_id: request.keyId,
    agent_id: agentId,
    model: request.model,
    replica: outcome.replica === NOWHERE.replica ? null : outcome.replica,
    final,
    outcome: outcome.kind,
    finish_reason: outcome.kind === "finished" ? outcome.reason : null,
    error_code: outcome.kind === "failed" ? outcome.code : null,
    prompt_tokens: promptTokens,
    cached_tokens: Math.min(promptTokens, outcome.statistics?.reused ?? 0),
    completion_tokens: outcome.completionTokens,
    started_at_ms: startedAtMs,
    ended_at_ms: endedAtMs,
    engine: outcome.statistics && engineFigures(outcome.statistics),
  };
};
