/**
 * What each key's guard is told of a booked batch: the month's sums as the ledger has them, and which requests are over. Pure.
 */
import type { UsageRecord } from "@lockgate/shared-types";
import type { BookedTurn, Settlement } from "../admit/key-guard-types.ts";
import type { MonthSum } from "./book-turns.ts";

const bookedTurn = (record: UsageRecord): BookedTurn => ({
  requestId: record.request_id,
  agentId: record.agent_id,
  turnId: record.turn_id,
  tokens: record.prompt_tokens + record.completion_tokens,
  endsRequest: record.final,
});

/** One settlement for each key of the records; those without a key (an agent's local one) concern no guard. */
export const settlementsOf = (
  records: readonly UsageRecord[],
  sums: readonly MonthSum[],
): ReadonlyMap<string, Settlement> => {
  const turnsOf = new Map<string, BookedTurn[]>();
  for (const record of records) {
    if (record.key_id === null) continue;
    const turns = turnsOf.get(record.key_id) ?? [];
    turns.push(bookedTurn(record));
    turnsOf.set(record.key_id, turns);
  }
  const settlements = new Map<string, Settlement>();
  for (const [keyId, turns] of turnsOf) {
    const monthTokens = Object.fromEntries(
      sums.filter(({ key_id }) => key_id === keyId).map(({ month, tokens }) => [month, tokens]),
    );
    settlements.set(keyId, { monthTokens, turns });
  }
  return settlements;
};
