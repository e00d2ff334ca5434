/** `admin tenants`: whose keys, and whose prefix cache. */
import type { Command } from "commander";
import { type Tenant, tenantSchema } from "../src/admin/tenant-directory.ts";
import { addCommand, type CliContext, limitOption, option, printList, required } from "./command.ts";
import { instant, table } from "./table.ts";

const EXAMPLES = `
Examples:
  npm run admin -- tenants create acme --name 'Acme Ltd'
  npm run admin -- tenants list`;

const text = (tenants: readonly Tenant[]): string =>
  table(
    ["id", "name", "created"],
    tenants.map(({ tenant, name, created_at_ms }) => [tenant, name, instant(created_at_ms)]),
  );

const pathOf = (id: string | undefined): string => `/tenants/${encodeURIComponent(id ?? "")}`;

/** Adds the commands. */
export const addTenantCommands = (program: Command, context: CliContext): void => {
  const tenants = program.command("tenants").description("Tenants.").addHelpText("after", EXAMPLES);
  const name = () => option("--name <TEXT>", "what people call it");

  addCommand(tenants, "create <ID>", "Make a tenant.", [name()], context, async ({ ask, args, values, print }) => {
    const body = { tenant: args[0], ...(values.name === undefined ? {} : { name: values.name }) };
    const made = await ask(tenantSchema, "POST", "/tenants", body);
    print(made, () => text([made]));
  });
  addCommand(tenants, "list", "List tenants.", [limitOption()], context, async (run) => {
    await printList(run, tenantSchema, "/tenants", {}, text);
  });
  addCommand(tenants, "show <ID>", "Show a tenant.", [], context, async ({ ask, args, print }) => {
    const found = await ask(tenantSchema, "GET", pathOf(args[0]));
    print(found, () => text([found]));
  });
  addCommand(
    tenants,
    "change <ID>",
    "Rename a tenant.",
    [required(name())],
    context,
    async ({ ask, args, values, print }) => {
      const changed = await ask(tenantSchema, "PATCH", pathOf(args[0]), { name: values.name });
      print(changed, () => text([changed]));
    },
  );
  addCommand(tenants, "delete <ID>", "Delete a tenant that has no keys.", [], context, async ({ ask, args, print }) => {
    const gone = await ask(tenantSchema, "DELETE", pathOf(args[0]));
    print(gone, () => `deleted ${gone.tenant} (${gone.name})`);
  });
};
