/** `admin agents`: how the agents are, and which of them get new turns. */
import { type Command, Option } from "commander";
import { z } from "zod";
import { type AgentEntry, agentSchema } from "../src/admin/agent-schemas.ts";
import { addCommand, type CliContext, option } from "./command.ts";
import { CommandFailed, exitCodes } from "./exit-codes.ts";
import { instant, table } from "./table.ts";
import { apiValue, weightOrNone } from "./values.ts";

const EXAMPLES = `
Examples:
  npm run admin -- agents list
  npm run admin -- agents list --json`;

const text = (agents: readonly AgentEntry[]): string =>
  table(
    ["agent", "service", "weight", "state", "heard", "free slots", "running", "waiting", "tokens/s", "models"],
    agents.map(({ agent, disabled, weight, heartbeat }) => [
      agent,
      disabled ? "out" : "in",
      weight,
      heartbeat?.state ?? "not heard of",
      instant(heartbeat?.received_at_ms ?? null),
      heartbeat?.free_slots,
      heartbeat?.inflight,
      heartbeat?.waiting,
      heartbeat?.tokens_per_second,
      heartbeat?.models,
    ]),
  );

/** Adds the commands. */
export const addAgentCommands = (program: Command, context: CliContext): void => {
  const agents = program.command("agents").description("GPU agents.").addHelpText("after", EXAMPLES);

  addCommand(agents, "list", "List the configured agents.", [], context, async ({ ask, print }) => {
    const { data } = await ask(z.object({ data: z.array(agentSchema) }), "GET", "/agents");
    print({ data }, () => (data.length === 0 ? "none" : text(data)));
  });
  addCommand(
    agents,
    "change <NAME>",
    "Take an agent out of service, put it back, or change its share.",
    [
      new Option("--disable", "no new turns for it").conflicts("enable"),
      new Option("--enable", "new turns again"),
      option("--weight <NUMBER>", "its share beside the others, or none for the configuration's", weightOrNone),
    ],
    context,
    async ({ ask, args, values, print }) => {
      const disabled = values.disable === true ? true : values.enable === true ? false : undefined;
      const change = {
        ...(disabled === undefined ? {} : { disabled }),
        ...(values.weight === undefined ? {} : { weight: apiValue(values.weight) }),
      };
      if (Object.keys(change).length === 0) {
        throw new CommandFailed(exitCodes.usage, "name a change: --disable, --enable or --weight");
      }
      const changed = await ask(agentSchema, "PATCH", `/agents/${encodeURIComponent(args[0] ?? "")}`, change);
      print(changed, () => text([changed]));
    },
  );
};
