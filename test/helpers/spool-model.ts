/**
 * The spool's promise as a model: a life of appends, syncs, deliveries, crashes and faults, and what the receiver must have at the end.
 *
 * Promised are the records whose append said true. A crash of the process may cost none of them; a loss of power none that a sync covered.
 * The receiver sees each at least once, first sightings in the order of the appends.
 */
import { REJECT_NAME } from "../../gpu-agent/src/usage/reject-file.ts";
import { encodeLine } from "../../gpu-agent/src/usage/spool-line.ts";
import { type Fault, MemorySpoolFiles } from "./memory-spool-files.ts";
import { deliverAll, numberOf, type OpenedSpool, openSpool, recordNumber } from "./usage-records.ts";

export type SpoolStep =
  | { readonly kind: "append" | "sync" | "kill" | "close" }
  /** Up to `maxRecords` reach the edge, which books them; without `isAcknowledged` the answer is lost. */
  | { readonly kind: "deliver"; readonly maxRecords: number; readonly isAcknowledged: boolean }
  | { readonly kind: "power"; readonly share: number; readonly keepsNames: boolean }
  /** The call after `after` more ones fails. */
  | { readonly kind: "fault"; readonly after: number; readonly how: Fault["kind"] };

export interface SpoolLife {
  /** Appended with success, and covered by a success of sync where power was lost afterwards. */
  readonly promised: readonly number[];
  /** By first sighting. */
  readonly received: readonly number[];
  /** Appended without success. */
  readonly failed: readonly number[];
  /** What the last start counted, what it then delivered, and how many damaged lines it put aside. */
  readonly backlogAtEnd: number;
  readonly damagedAtEnd: number;
  readonly deliveredAtEnd: readonly number[];
  readonly calls: number;
}

/** Segments of three records, so that a short life has several. */
const SEGMENT_BYTES = 3 * encodeLine(recordNumber(10)).length;
/** More starts than this in a row never fail: a step injects one fault. */
const MAX_STARTS = 10;

export const liveThrough = async (steps: readonly SpoolStep[], faults: readonly Fault[] = []): Promise<SpoolLife> => {
  const files = new MemorySpoolFiles();
  files.faults = faults;
  let opened: OpenedSpool | undefined;
  let promised: number[] = [];
  let synced = 0;
  const failed: number[] = [];
  const sightings: number[] = [];
  let appended = 0;

  /** The spool, started if it is not open; a start that meets a fault is a start that failed, and is tried again. */
  const spool = async () => {
    for (let start = 1; opened === undefined; start++) {
      try {
        opened = await openSpool(files, { segmentBytes: SEGMENT_BYTES });
      } catch (error) {
        if (start === MAX_STARTS) throw error;
      }
    }
    return opened.spool;
  };

  for (const step of steps) {
    switch (step.kind) {
      case "append": {
        const number = ++appended;
        const wasPromised = (await spool()).append(recordNumber(number));
        (wasPromised ? promised : failed).push(number);
        break;
      }
      case "sync": {
        const covered = promised.length;
        if (await (await spool()).sync()) synced = covered;
        break;
      }
      case "deliver": {
        const current = await spool();
        // As a delivery does: what an edge has must not be lost here, or the cursor would be ahead of the records.
        const covered = promised.length;
        if (await current.sync()) synced = covered;
        try {
          const batch = await current.next(step.maxRecords);
          if (batch.kind === "empty") break;
          if (batch.kind === "damaged") await current.reject(batch.reason, { line: batch.line });
          else sightings.push(...batch.records.map(numberOf));
          const count = batch.kind === "records" ? batch.records.length : 1;
          if (step.isAcknowledged) await current.acknowledge(batch.end, count);
        } catch {
          // A read or a reject that failed: the next delivery tries again.
        }
        break;
      }
      case "close":
        try {
          await (await spool()).close();
        } catch {
          // A close that failed ends with the process.
        }
        files.killProcess();
        opened = undefined;
        break;
      case "kill":
        files.killProcess();
        opened = undefined;
        break;
      case "power":
        files.losePower(step.share, step.keepsNames);
        promised = [
          ...promised.slice(0, synced),
          ...promised.slice(synced).filter((number) => sightings.includes(number)),
        ];
        synced = promised.length;
        opened = undefined;
        break;
      case "fault":
        files.faults = [{ at: files.calls.length + 1 + step.after, kind: step.how }];
        break;
    }
  }
  const calls = files.calls.length;
  files.killProcess();
  opened = undefined;
  const last = await spool();
  const backlogAtEnd = last.backlog;
  const putAside = () => (files.contents[REJECT_NAME] ?? "").split("\n").length;
  const putAsideBefore = putAside();
  const deliveredAtEnd = await deliverAll(last);
  const damagedAtEnd = putAside() - putAsideBefore;
  sightings.push(...deliveredAtEnd);
  return { promised, received: [...new Set(sightings)], failed, backlogAtEnd, damagedAtEnd, deliveredAtEnd, calls };
};
