/**
 * Books a batch of usage records that an agent has sent: into the ledger, then into the keys' limits.
 *
 * Every step may be done again: a turn is booked once, sums are absolute. So a failure anywhere is told as one, the agent sends the batch
 * again, and nothing is counted twice. Verifying the sender is not done here.
 */

import { type UsageRecord, usageBatchSchema } from "@lockgate/shared-types";
import type { KeyGuardRpc } from "../admit/key-guard-types.ts";
import { boundedParallel } from "../bounded-parallel.ts";
import { causeOf } from "../cause-of.ts";
import { issueText } from "../issue-text.ts";
import { count } from "../metrics/count.ts";
import { bookingStatements, monthSumSchema } from "./book-turns.ts";
import type { Ledger } from "./ledger.ts";
import { settlementsOf } from "./settlements.ts";

/** Guards that one batch calls at once; a worker has six connections. */
export const SETTLE_PARALLEL = 6;

export interface UsagePorts {
  readonly ledger: Ledger;
  /** The guard of a key, to be asked only for an id that is genuine. */
  readonly guardOf: (keyId: string) => Pick<KeyGuardRpc, "settle">;
  /** Whether an id was made by this edge: an object that is asked once exists for ever. */
  readonly isGenuineKeyId: (keyId: string) => Promise<boolean>;
}

export type UsageVerdict =
  | { readonly kind: "booked"; readonly records: number }
  /** `rule` names the place and the rule, and nothing that was sent. */
  | { readonly kind: "malformed"; readonly code: "invalid_json" | "invalid_value"; readonly rule: string }
  | { readonly kind: "failed"; readonly step: "ledger" | "guard"; readonly cause: string };

type Batch =
  | { readonly ok: true; readonly records: readonly UsageRecord[] }
  | { readonly ok: false; readonly verdict: UsageVerdict };

const malformed = (code: "invalid_json" | "invalid_value", rule: string): Batch => ({
  ok: false,
  verdict: { kind: "malformed", code, rule },
});

/** Reads a batch; `agentName` is who signed it, and whose turns alone it may tell of. */
const readBatch = (bytes: Uint8Array, agentName: string): Batch => {
  let json: unknown;
  try {
    json = JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes));
  } catch {
    return malformed("invalid_json", "The body is not JSON in UTF-8.");
  }
  const parsed = usageBatchSchema.safeParse(json);
  if (!parsed.success) return malformed("invalid_value", issueText(parsed.error));
  const { agent_id, records } = parsed.data;
  if (agent_id !== agentName) return malformed("invalid_value", "agent_id: must be the agent that signed the batch");
  const foreign = records.findIndex((record) => record.agent_id !== agentName);
  if (foreign >= 0) {
    return malformed("invalid_value", `records[${foreign}].agent_id: must be the agent that signed the batch`);
  }
  return { ok: true, records };
};

/** Books the batch in `bytes`. When it resolves with "booked", ledger and limits have it durably. Never rejects. */
export const takeUsage = async (
  bytes: Uint8Array,
  agentName: string,
  ports: UsagePorts,
  nowMs: number,
): Promise<UsageVerdict> => {
  const batch = readBatch(bytes, agentName);
  if (!batch.ok) return batch.verdict;
  const { records } = batch;
  let settlements: ReturnType<typeof settlementsOf>;
  try {
    const results = await ports.ledger(bookingStatements(records, nowMs));
    const sums = results.at(-1);
    const booked = results.slice(0, -1).reduce((sum, { rows }) => sum + rows.length, 0);
    count("usage_records_total", ["booked"], booked);
    count("usage_records_total", ["duplicate"], records.length - booked);
    settlements = settlementsOf(records, monthSumSchema.array().parse(sums?.rows));
  } catch (error) {
    return { kind: "failed", step: "ledger", cause: causeOf(error) };
  }
  try {
    await boundedParallel([...settlements], SETTLE_PARALLEL, async ([keyId, settlement]) => {
      if (!(await ports.isGenuineKeyId(keyId))) return;
      await ports.guardOf(keyId).settle(settlement);
      count("guard_calls_total", ["settle", "ok"]);
    });
  } catch (error) {
    count("guard_calls_total", ["settle", "failed"]);
    return { kind: "failed", step: "guard", cause: causeOf(error) };
  }
  return { kind: "booked", records: records.length };
};
