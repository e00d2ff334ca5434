/**
 * Waits until an edge has heard from its agents that they are ready. An agent says so on its standard output a moment before its heartbeat
 * has arrived, and an edge that has last heard of one that starts sends it nothing.
 */
import { setTimeout as pause } from "node:timers/promises";
import { z } from "zod";

/** A heartbeat arrives within milliseconds; one that failed is followed by another after 5 s. */
const HEARD_LIMIT_MS = 30_000;
const POLL_MS = 20;

const agentsSchema = z.object({
  data: z.array(z.object({ agent: z.string(), heartbeat: z.object({ state: z.string() }).nullable() })),
});

/** Settles when it has, or when `signal` says stop; throws if it takes over HEARD_LIMIT_MS. */
export const waitUntilHeard = async (url: string, adminToken: string, signal: AbortSignal): Promise<void> => {
  const limit = AbortSignal.timeout(HEARD_LIMIT_MS);
  const either = AbortSignal.any([limit, signal]);
  try {
    for (;;) {
      const response = await fetch(`${url}/admin/v1/agents`, {
        headers: { authorization: `Bearer ${adminToken}` },
        signal: either,
      });
      const parsed = agentsSchema.safeParse(response.ok ? await response.json() : undefined);
      if (parsed.success && parsed.data.data.every(({ heartbeat }) => heartbeat?.state === "ready")) return;
      await pause(POLL_MS, undefined, { signal: either });
    }
  } catch (error) {
    if (signal.aborted) return;
    if (!limit.aborted) throw error;
    throw new Error(`the agents are ready, but the edge has not heard so in ${HEARD_LIMIT_MS / 1000} s`);
  }
};
