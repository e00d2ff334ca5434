/**
 * Books requests whose usage record never came. A record that comes later takes its row away again (edge/migrations).
 */
import type { LostRequest } from "./guard-core.ts";

/** Not where a turn of the request is booked: then its record did come, and an object that lost its memory does not know. */
const INSERT = `INSERT OR IGNORE INTO lost_requests
  (request_id, key_id, agent_id, estimated_tokens, started_at_ms, closed_at_ms)
  SELECT ?1, ?2, ?3, ?4, ?5, ?6 WHERE NOT EXISTS (SELECT 1 FROM turns WHERE request_id = ?1)`;

/** All rows or none. '' stands for an agent that is not known, as the ledger's sums have it. */
export const bookLostRequests = async (ledger: D1Database, rows: readonly LostRequest[]): Promise<void> => {
  const insert = ledger.prepare(INSERT);
  await ledger.batch(
    rows.map(({ requestId, keyId, agentId, estimatedTokens, startedAtMs, closedAtMs }) =>
      insert.bind(requestId, keyId, agentId ?? "", estimatedTokens, startedAtMs, closedAtMs),
    ),
  );
};
