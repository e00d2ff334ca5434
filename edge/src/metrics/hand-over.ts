/**
 * Hands this isolate's counts to the Fleet object: with each snapshot that it asks for anyway, and behind an answer where none is asked for.
 *
 * No request waits for it, and a failure loses nothing: what was not taken is told again. Only an isolate that is evicted takes what it has
 * counted in the last HAND_OVER_MS with it.
 */
import { causeOf } from "../cause-of.ts";
import type { Env } from "../env.ts";
import { fleetOf } from "../fleet/fleet-object.ts";
import type { SnapshotReply } from "../fleet/fleet-table.ts";
import { logError } from "../log.ts";
import { count, isolateCounts } from "./count.ts";
import type { IsolateReport, OpenBreakers } from "./totals.ts";

/** From a count to its handing over, at most, in an isolate that serves a request now and then. */
export const HAND_OVER_MS = 2_000;

type FleetBinding = Pick<Env, "FLEET">;

/** Tells by `call` what is to be told now; what arrived is not told again. */
const telling = async <Reply>(
  breakers: OpenBreakers | null,
  call: (report: IsolateReport) => Promise<Reply>,
): Promise<Reply> => {
  const counts = isolateCounts();
  const batch = counts.batch() ?? null;
  const reply = await call({ isolate: counts.isolate, batch, breakers });
  if (batch !== null) counts.taken(batch);
  return reply;
};

/** Asks for a snapshot of the fleet, and tells what this isolate has counted with it. */
export const snapshotAndTell = async (
  env: FleetBinding,
  since: string | null,
  breakers: OpenBreakers,
): Promise<SnapshotReply> => {
  try {
    const reply = await telling(breakers, async (report) => fleetOf(env).snapshot(since, report));
    count("fleet_calls_total", ["ok"]);
    return reply;
  } catch (error) {
    count("fleet_calls_total", ["failed"]);
    throw error;
  }
};

/** Tells what this isolate has counted, if anything; never rejects. */
export const tell = async (env: FleetBinding): Promise<void> => {
  if (isolateCounts().isEmpty) return;
  try {
    await telling(null, async (report) => fleetOf(env).tell(report));
  } catch (error) {
    logError("counts_not_told", { cause: causeOf(error) });
  }
};

let plannedAtMs: number | undefined;

/** Sees that what was counted is told within HAND_OVER_MS. `background` keeps work alive beyond the answer. */
export const tellLater = (env: FleetBinding, background: (work: Promise<unknown>) => void): void => {
  const nowMs = Date.now();
  // One that is overdue went away with its request.
  if (plannedAtMs !== undefined && nowMs - plannedAtMs < 2 * HAND_OVER_MS) return;
  plannedAtMs = nowMs;
  const later = new Promise((resolve) => setTimeout(resolve, HAND_OVER_MS));
  background(
    later.then(() => {
      plannedAtMs = undefined;
      return tell(env);
    }),
  );
};
