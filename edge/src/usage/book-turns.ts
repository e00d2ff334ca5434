/**
 * The statements that book usage records: each turn once, however often it is delivered, and the sums that budgets are measured by. Pure.
 *
 * Records travel as JSON values, so that statements have a fixed text and are few. Triggers (edge/migrations) keep the sums.
 */

import type { UsageRecord } from "@lockgate/shared-types";
import * as z from "zod";
import { dayOf, monthOf } from "../calendar.ts";
import type { Statement } from "./ledger.ts";

/** Records of one statement: with the longest names that a record may have, escaped, its JSON stays under MAX_VALUE_BYTES. */
export const RECORDS_PER_STATEMENT = 32;
/** D1's bound on one value. */
export const MAX_VALUE_BYTES = 2_000_000;

/** The month that a turn counts for. An agent whose clock is ahead must not put usage into a month that nobody looks at yet. */
const countedAtMs = ({ ended_at_ms }: UsageRecord, bookedAtMs: number): number => Math.min(ended_at_ms, bookedAtMs);

const INSERT_TURNS = `
INSERT INTO turns (
  agent_id, turn_id, request_id, key_id, tenant_id, model, replica, outcome, finish_reason, error_code,
  prompt_tokens, cached_tokens, completion_tokens, started_at_ms, ended_at_ms, day, month, engine, booked_at_ms
)
SELECT
  value ->> 'agent_id', value ->> 'turn_id', value ->> 'request_id', value ->> 'key_id',
  (SELECT tenant_id FROM api_keys WHERE api_keys.key_id = value ->> 'key_id'),
  value ->> 'model', value ->> 'replica', value ->> 'outcome', value ->> 'finish_reason', value ->> 'error_code',
  value ->> 'prompt_tokens', value ->> 'cached_tokens', value ->> 'completion_tokens',
  value ->> 'started_at_ms', value ->> 'ended_at_ms', value ->> 'day', value ->> 'month',
  value ->> 'engine', ?2
FROM json_each(?1) WHERE true
ON CONFLICT (agent_id, turn_id) DO NOTHING
RETURNING 1 AS booked`;

/** Of the months that the turns have in the ledger: a turn booked long ago may count for another than its repetition would. */
const MONTH_SUMS = `
SELECT key_id, month, tokens FROM usage_monthly WHERE (key_id, month) IN (
  SELECT turns.key_id, turns.month FROM json_each(?1) JOIN turns
    ON turns.agent_id = value ->> 'agent_id' AND turns.turn_id = value ->> 'turn_id'
)`;

/** What the record's row is made of. */
const rowOf = (record: UsageRecord, nowMs: number) => ({
  ...record,
  // Kept as the text that it is: the engine's figures are shown, never searched.
  engine: record.engine === null ? null : JSON.stringify(record.engine),
  day: dayOf(countedAtMs(record, nowMs)),
  month: monthOf(countedAtMs(record, nowMs)),
});

/** The statements of one transaction: insertions, one row for each turn that is new, and as the last one the sums after them (monthSumSchema). */
export const bookingStatements = (records: readonly UsageRecord[], nowMs: number): readonly Statement[] => {
  const statements: Statement[] = [];
  for (let from = 0; from < records.length; from += RECORDS_PER_STATEMENT) {
    const rows = records.slice(from, from + RECORDS_PER_STATEMENT).map((record) => rowOf(record, nowMs));
    statements.push({ sql: INSERT_TURNS, values: [JSON.stringify(rows), nowMs] });
  }
  const turns = records.map(({ agent_id, turn_id }) => ({ agent_id, turn_id }));
  statements.push({ sql: MONTH_SUMS, values: [JSON.stringify(turns)] });
  return statements;
};

/** A row of the last statement. */
export const monthSumSchema = z.object({ key_id: z.string(), month: z.string(), tokens: z.number() });
export type MonthSum = Readonly<z.infer<typeof monthSumSchema>>;
