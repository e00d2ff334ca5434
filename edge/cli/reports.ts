/** `admin usage`, `lost`, `consistency`, `audit`, `openapi`: what only looks. */
import type { Command } from "commander";
import { z } from "zod";
import { type AuditRow, auditRowSchema } from "../src/admin/audit.ts";
import { type ConsistencyRow, consistencyRowSchema, MAX_CONSISTENCY_KEYS } from "../src/admin/consistency.ts";
import { type LostRequest, lostRequestSchema } from "../src/admin/lost-query.ts";
import { type UsageDimension, type UsageRow, usageRowSchema } from "../src/admin/usage-query.ts";
import { addCommand, type CliContext, limitOption, option, printList } from "./command.ts";
import { exitCodes } from "./exit-codes.ts";
import { instant, table } from "./table.ts";
import { nameList } from "./values.ts";

const usageText =
  (by: readonly string[]) =>
  (rows: readonly UsageRow[]): string =>
    table(
      [...by, "turns", "failed", "aborted", "prompt", "cached", "completion"],
      rows.map((row) => [
        ...by.map((name) => row[name as UsageDimension]),
        row.turns,
        row.failed_turns,
        row.aborted_turns,
        row.prompt_tokens,
        row.cached_tokens,
        row.completion_tokens,
      ]),
    );

const lostText = (rows: readonly LostRequest[]): string =>
  table(
    ["request", "key", "agent", "estimated tokens", "started", "closed"],
    rows.map((row) => [
      row.request_id,
      row.key_id,
      row.agent_id,
      row.estimated_tokens,
      instant(row.started_at_ms),
      instant(row.closed_at_ms),
    ]),
  );

const consistencyText = (rows: readonly ConsistencyRow[]): string =>
  table(
    ["key", "state", "month", "ledger", "guard", "running", "open", "lost", "differences"],
    rows.map((row) => [
      row.key_id,
      row.state,
      row.month,
      row.ledger_month_tokens,
      row.guard_month_tokens,
      row.leases,
      row.open_requests,
      row.lost_requests,
      row.differences.map(({ what, ledger, guard }) => `${what} (${ledger}/${guard})`),
    ]),
  );

const auditText = (rows: readonly AuditRow[]): string =>
  table(
    ["time", "who", "action", "subject", "outcome", "request"],
    rows.map((row) => [instant(row.at_ms), row.actor, row.action, row.subject, row.outcome, row.request_id]),
  );

/** Adds the commands. */
export const addReportCommands = (program: Command, context: CliContext): void => {
  const key = () => option("--key <ID>", "of this key");
  const agent = () => option("--agent <NAME>", "of this agent");

  addCommand(
    program,
    "usage",
    "Sum usage: days, months, keys, tenants, models, agents.",
    [
      option("--by <LIST>", "of day, month, key, tenant, model, agent", nameList).default(["day"], "day"),
      option("--from <DAY>", "the first day, UTC (default: 31 days)"),
      option("--to <DAY>", "the last day (default: today)"),
      key(),
      option("--tenant <ID>", "of this tenant"),
      option("--model <NAME>", "of this model"),
      agent(),
      limitOption(),
    ],
    context,
    async (run) => {
      const { by, from, to, key: ofKey, tenant, model, agent: ofAgent } = run.values;
      const names = by as string[];
      const query = { group_by: names.join(","), from, to, key: ofKey, tenant, model, agent: ofAgent };
      await printList(run, usageRowSchema, "/usage", query, usageText(names));
    },
  );
  addCommand(
    program,
    "lost",
    "List requests whose usage record has not come.",
    [key(), agent(), limitOption()],
    context,
    async (run) => {
      const { key: ofKey, agent: ofAgent } = run.values;
      await printList(run, lostRequestSchema, "/lost", { key: ofKey, agent: ofAgent }, lostText);
    },
  );
  addCommand(
    program,
    "consistency",
    "Compare the ledger with the keys' guards; ends with 65 if they differ.",
    [key(), limitOption()],
    context,
    async (run) => {
      const query = { key: run.values.key, limit: Math.min(Number(run.values.limit), MAX_CONSISTENCY_KEYS) };
      const rows = await printList(run, consistencyRowSchema, "/consistency", query, consistencyText);
      if (rows.some(({ differences }) => differences.length > 0)) context.endWith(exitCodes.dataError);
    },
  );
  addCommand(
    program,
    "audit",
    "List changes, the newest first.",
    [option("--subject <NAME>", "of key:ID, tenant:ID or agent:NAME"), limitOption()],
    context,
    async (run) => {
      await printList(run, auditRowSchema, "/audit", { subject: run.values.subject }, auditText);
    },
  );
  addCommand(program, "openapi", "Print the admin API's OpenAPI document.", [], context, async ({ ask, print }) => {
    const document = await ask(z.record(z.string(), z.unknown()), "GET", "/openapi.json");
    print(document, () => JSON.stringify(document, null, 2));
  });
};
