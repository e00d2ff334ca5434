/** Agents as the admin API shows them and takes changes of them. Pure schemas; the CLI reads answers with the same ones. */
import { z } from "@hono/zod-openapi";
import { identifier } from "./identifier.ts";

/** Relative shares; 0 would be a disabled agent by another name. */
const MAX_WEIGHT = 1_000;

export const agentSchema = z
  .object({
    agent: identifier(),
    disabled: z.boolean(),
    weight: z.number(),
    heartbeat: z
      .object({
        received_at_ms: z.number(),
        state: z.string(),
        models: z.array(z.string()),
        replicas: z.number(),
        inflight: z.number(),
        waiting: z.number(),
        free_slots: z.number(),
        tokens_per_second: z.number().nullable(),
        usage_backlog: z.number(),
      })
      .nullable()
      .openapi({ description: "What the agent said last; null if it has not been heard of." }),
  })
  .openapi("Agent");
export type AgentEntry = z.output<typeof agentSchema>;

export const agentChangeSchema = z
  .strictObject({
    disabled: z.boolean().optional().openapi({ description: "True: no new turns, whatever it says of itself." }),
    weight: z.number().positive().max(MAX_WEIGHT).nullable().optional().openapi({
      description: "Its share beside the others; null takes the configuration's again.",
    }),
  })
  .refine(({ disabled, weight }) => disabled !== undefined || weight !== undefined, "names nothing to change")
  .openapi("AgentChange", { description: "What is absent stays as it is." });
export type AgentChange = z.output<typeof agentChangeSchema>;
