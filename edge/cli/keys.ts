/** `admin keys`: API keys. */
import type { Command } from "commander";
import {
  type KeyDetails,
  type KeyEntry,
  keyDetailsSchema,
  keyEntrySchema,
  type ShownKey,
  shownKeySchema,
} from "../src/admin/key-schemas.ts";
import { addCommand, type CliContext, limitOption, option, printList, required, type Values } from "./command.ts";
import { cell, facts, instant, table } from "./table.ts";
import { apiValue, duration, instantOrNone, limitOrNone, nameList, namesOrAll } from "./values.ts";

const EXAMPLES = `
Examples:
  npm run admin -- keys create --tenant acme --name ci --rpm 60 --concurrency 4
  npm run admin -- keys list --tenant acme
  npm run admin -- keys create --tenant acme --name trial --monthly-tokens 1000000 --expires 30d --json`;

const limitOptions = () => [
  option("--rpm <NUMBER>", "requests a minute, or none", limitOrNone),
  option("--tpm <NUMBER>", "tokens a minute, or none", limitOrNone),
  option("--concurrency <NUMBER>", "requests at once, or none", limitOrNone),
  option("--monthly-tokens <NUMBER>", "tokens a calendar month (UTC), or none", limitOrNone),
];
const useOptions = (nowMs: number) => [
  option("--scopes <LIST>", "of chat, models, diagnostics", nameList),
  option("--models <LIST>", "the models it may use, or all", namesOrAll),
  ...limitOptions(),
  option("--expires <TIME>", "30d, 2026-12-31, an instant, or none", instantOrNone(nowMs)),
];

/** Only what was typed, under the API's names. */
const typed = (values: Values): Record<string, unknown> => {
  const given = (pairs: readonly (readonly [string, unknown])[]) =>
    Object.fromEntries(
      pairs.filter(([, value]) => value !== undefined).map(([name, value]) => [name, apiValue(value)]),
    );
  const limits = given([
    ["requests_per_minute", values.rpm],
    ["tokens_per_minute", values.tpm],
    ["concurrency", values.concurrency],
    ["tokens_per_month", values.monthlyTokens],
  ]);
  return given([
    ["name", values.name],
    ["scopes", values.scopes],
    ["models", values.models],
    ["limits", Object.keys(limits).length === 0 ? undefined : limits],
    ["expires_at_ms", values.expires],
  ]);
};

const limitPairs = ({ limits }: KeyEntry): [string, unknown][] => [
  ["requests a minute", limits.requests_per_minute],
  ["tokens a minute", limits.tokens_per_minute],
  ["at once", limits.concurrency],
  ["tokens a month", limits.tokens_per_month],
];

const entryPairs = (key: KeyEntry): [string, unknown][] => [
  ["id", key.key_id],
  ["tenant", key.tenant],
  ["name", key.name],
  ["state", key.state],
  ["scopes", key.scopes],
  ["models", key.models ?? "all"],
  ...limitPairs(key),
  ["expires", instant(key.expires_at_ms)],
  ["revoked", instant(key.revoked_at_ms)],
  ["created", instant(key.created_at_ms)],
];

const shownText = (key: ShownKey): string =>
  `${facts([["key", key.key], ...entryPairs(key)])}\n\nThe key is shown this once and stored nowhere.`;

const guardPairs = ({ guard }: KeyDetails): [string, unknown][] =>
  guard === null
    ? [["guard", "does not know this key"]]
    : [
        ["directory agrees", guard.agrees ? "yes" : "no; a change broke off, make it again"],
        [
          "secrets",
          guard.secrets.map(({ expires_at_ms }) =>
            expires_at_ms === null ? "current" : `until ${instant(expires_at_ms)}`,
          ),
        ],
        [`tokens in ${guard.month}`, guard.month_tokens],
        ["running", guard.leases],
        ["waiting", guard.waiting],
        ["usage not known yet", guard.open_requests.length],
        ["requests left", guard.rate_limits.requests?.remaining],
        ["tokens left", guard.rate_limits.tokens?.remaining],
      ];

const listText = (keys: readonly KeyEntry[]): string =>
  table(
    ["id", "tenant", "name", "state", "rpm", "tpm", "at once", "month", "models", "expires"],
    keys.map((key) => [
      key.key_id,
      key.tenant,
      key.name,
      key.state,
      ...limitPairs(key).map(([, limit]) => limit),
      cell(key.models ?? "all"),
      instant(key.expires_at_ms),
    ]),
  );

/** Adds the commands. */
export const addKeyCommands = (program: Command, context: CliContext): void => {
  const keys = program.command("keys").description("API keys.").addHelpText("after", EXAMPLES);
  const tenant = () => option("--tenant <ID>", "whose keys");

  addCommand(
    keys,
    "create",
    "Make a key; it is shown this once.",
    [required(tenant()), required(option("--name <TEXT>", "what it is for")), ...useOptions(context.nowMs)],
    context,
    async ({ ask, values, print }) => {
      const key = await ask(shownKeySchema, "POST", "/keys", { tenant: values.tenant, ...typed(values) });
      print(key, () => shownText(key));
    },
  );
  addCommand(
    keys,
    "list",
    "List keys.",
    [tenant(), option("--state <STATE>", "pending, active or revoked"), limitOption()],
    context,
    async (run) => {
      const { tenant: of, state } = run.values;
      await printList(run, keyEntrySchema, "/keys", { tenant: of, state }, listText);
    },
  );
  addCommand(
    keys,
    "show <ID>",
    "Show a key, its limits as they are now and its open requests.",
    [],
    context,
    async ({ ask, args, print }) => {
      const key = await ask(keyDetailsSchema, "GET", `/keys/${encodeURIComponent(args[0] ?? "")}`);
      print(key, () => facts([...entryPairs(key), ...guardPairs(key)]));
    },
  );
  addCommand(
    keys,
    "change <ID>",
    "Change what is named; it takes effect with the key's next request.",
    [option("--name <TEXT>", "what it is for"), ...useOptions(context.nowMs)],
    context,
    async ({ ask, args, values, print }) => {
      const key = await ask(keyEntrySchema, "PATCH", `/keys/${encodeURIComponent(args[0] ?? "")}`, typed(values));
      print(key, () => facts(entryPairs(key)));
    },
  );
  addCommand(
    keys,
    "rotate <ID>",
    "Give a key a new secret; those from before are taken for the overlap.",
    [option("--overlap <TIME>", "at most 7d; 0 ends them now", duration).default(86_400, "24h")],
    context,
    async ({ ask, args, values, print }) => {
      const path = `/keys/${encodeURIComponent(args[0] ?? "")}/rotate`;
      const key = await ask(shownKeySchema, "POST", path, { overlap_s: values.overlap });
      print(key, () => shownText(key));
    },
  );
  addCommand(keys, "revoke <ID>", "Revoke a key for ever.", [], context, async ({ ask, args, print }) => {
    const key = await ask(keyEntrySchema, "POST", `/keys/${encodeURIComponent(args[0] ?? "")}/revoke`);
    print(key, () => `revoked ${key.key_id} (${key.tenant}, ${key.name})`);
  });
};
