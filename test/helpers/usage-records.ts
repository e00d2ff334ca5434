/** Usage records for tests, told apart by their number; and an opened spool over files in memory. */
import { turnIdOf, type UsageRecord } from "@lockgate/shared-types";
import { UsageSpool } from "../../gpu-agent/src/usage/usage-spool.ts";
import { ManualClock } from "./fake-engine.ts";
import type { MemorySpoolFiles } from "./memory-spool-files.ts";

export const recordNumber = (number: number): UsageRecord => ({
  turn_id: turnIdOf(`req_${number}`, 1),
  request_id: `req_${number}`,
  attempt: 1,
  key_id: "k",
  agent_id: "gpu-7",
  model: "atlas",
  replica: 0,
  final: true,
  outcome: "finished",
  finish_reason: "stop",
  error_code: null,
  prompt_tokens: 20,
  cached_tokens: 5,
  completion_tokens: number,
  started_at_ms: 1_800_000_000_000,
  ended_at_ms: 1_800_000_000_500,
  engine: null,
});

export const numberOf = ({ request_id }: UsageRecord): number => Number(request_id.slice("req_".length));

export interface OpenedSpool {
  readonly spool: UsageSpool;
  readonly clock: ManualClock;
  /** Events that were logged. */
  readonly logged: string[];
}

export const openSpool = async (
  files: MemorySpoolFiles,
  options: { readonly maxRecords?: number; readonly segmentBytes?: number } = {},
): Promise<OpenedSpool> => {
  const clock = new ManualClock();
  const logged: string[] = [];
  const log = (_: string, event: string) => void logged.push(event);
  const nowMs = () => 1_800_000_000_000;
  const spool = await UsageSpool.open({ files, maxRecords: 1_000, clock, nowMs, log, ...options });
  return { spool, clock, logged };
};

/** Takes everything that waits, as a delivery whose edge accepts all; damaged lines go to the reject file. */
export const deliverAll = async (spool: UsageSpool, maxRecords = 100): Promise<number[]> => {
  const numbers: number[] = [];
  for (;;) {
    const batch = await spool.next(maxRecords);
    if (batch.kind === "empty") return numbers;
    if (batch.kind === "damaged") await spool.reject(batch.reason, { line: batch.line });
    else numbers.push(...batch.records.map(numberOf));
    await spool.acknowledge(batch.end, batch.kind === "records" ? batch.records.length : 1);
  }
};
