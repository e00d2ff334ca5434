/**
 * The heartbeat: what an agent tells the edge of itself every few seconds, so that the edge can choose. Pure schema.
 *
 * It says how things are, not what to do about it: thresholds and routing are the edge's. No address of the agent is in it; where an agent
 * is reached is the edge's configuration, never a message.
 */
import * as z from "zod";
import { identifierSchema } from "./identifier.ts";

/** Path of the edge's endpoint for heartbeats. */
export const HEARTBEAT_PATH = "/internal/v1/heartbeat";

const count = z.number().int().nonnegative();

export const heartbeatSchema = z.object({
  agent_id: identifierSchema,
  /** Unix time, ms, on the agent's clock. */
  sent_at_ms: count,
  /**
   * starting: no replica was READY yet. ready: at least one can take turns. unavailable: none can now. draining: it ends and takes no new
   * turn. overloaded: replicas are there, but its usage spool takes no more.
   */
  state: z.enum(["starting", "ready", "unavailable", "draining", "overloaded"]),
  /** Names that clients may ask for. */
  models: z.array(z.string().min(1).max(4_096)).max(64),
  replicas: z
    .array(
      z.object({
        index: count,
        /** The replica's own word for its state. */
        state: z.string().min(1).max(32),
        slots: count,
        free_slots: count,
      }),
    )
    .max(64),
  /** Turns under way, waiting ones included; of these, turns that wait for a slot. */
  inflight: count,
  waiting: count,
  free_slots: count,
  /** Tokens that one slot reads or makes in a second, measured over the last turns; null before the first. */
  tokens_per_second: z.number().nonnegative().nullable(),
  /** Usage records that the edge has not acknowledged. */
  usage_backlog: count,
});
export type Heartbeat = Readonly<z.infer<typeof heartbeatSchema>>;
