/** The admin API's routes for agents: how they are, and what an operator sets. Which agents there are is configuration, not data. */
import { createRoute, z } from "@hono/zod-openapi";
import { runOne } from "../usage/ledger.ts";
import { type AgentChange, type AgentEntry, agentChangeSchema, agentSchema } from "./agent-schemas.ts";
import { type AdminApp, answerRefusal, errorResponses, jsonOf } from "./app-types.ts";
import { audit, finishAudit } from "./audit.ts";
import type { FleetAgent } from "./fleet-port.ts";
import { identifier } from "./identifier.ts";
import { done, type Outcome, refuse } from "./outcome.ts";
import type { AdminContext } from "./ports.ts";

const agentsSchema = z.object({ data: z.array(agentSchema) });

const shown = ({ name, disabled, weight, heartbeat }: FleetAgent): AgentEntry => ({
  agent: name,
  disabled,
  weight,
  heartbeat:
    heartbeat === null
      ? null
      : {
          received_at_ms: heartbeat.receivedAtMs,
          state: heartbeat.message.state,
          models: [...heartbeat.message.models],
          replicas: heartbeat.message.replicas.length,
          inflight: heartbeat.message.inflight,
          waiting: heartbeat.message.waiting,
          free_slots: heartbeat.message.free_slots,
          tokens_per_second: heartbeat.message.tokens_per_second,
          usage_backlog: heartbeat.message.usage_backlog,
        },
});

const findAgent = async ({ ports }: AdminContext, name: string): Promise<FleetAgent | undefined> =>
  (await ports.fleet.agents()).find((agent) => agent.name === name);

const noSuchAgent = () => refuse("not_found", "There is no such agent.");

const changeAgent = async (
  context: AdminContext,
  name: string,
  { disabled, weight }: AgentChange,
): Promise<Outcome<AgentEntry>> => {
  const { ports, asker } = context;
  const found = await findAgent(context, name);
  if (found === undefined) return noSuchAgent();
  const override = { ...(disabled === undefined ? {} : { disabled }), ...(weight === undefined ? {} : { weight }) };
  const before = { disabled: found.disabled, weight: found.weight };
  const entry = { action: "agent.change", subject: `agent:${name}`, before, after: { ...before, ...override } };
  await runOne(ports.ledger, audit(asker, entry, "begun"));
  await ports.fleet.setAgent(name, override);
  await runOne(ports.ledger, finishAudit(asker, "done"));
  const changed = await findAgent(context, name);
  return changed === undefined ? noSuchAgent() : done(shown(changed));
};

const tags = ["agents"];
const params = z.object({ agent: identifier() });

const list = createRoute({
  method: "get",
  path: "/agents",
  tags,
  summary: "List the configured agents with what they said of themselves last.",
  responses: { 200: { description: "The agents.", content: jsonOf(agentsSchema) }, ...errorResponses },
});

const change = createRoute({
  method: "patch",
  path: "/agents/{agent}",
  tags,
  summary: "Take an agent out of service, put it back, or change its share.",
  request: { params, body: { required: true, content: jsonOf(agentChangeSchema) } },
  responses: { 200: { description: "The agent.", content: jsonOf(agentSchema) }, ...errorResponses },
});

/** Adds the routes. */
export const addAgentRoutes = (app: AdminApp): void => {
  app.openapi(list, async (c) => c.json({ data: (await c.env.ports.fleet.agents()).map(shown) }, 200));
  app.openapi(change, async (c) => {
    const changed = await changeAgent(c.env, c.req.valid("param").agent, c.req.valid("json"));
    return changed.ok ? c.json(changed.value, 200) : answerRefusal(c, changed);
  });
};
