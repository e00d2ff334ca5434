/** The admin command: its commands, and the exit code that each way of ending has. It ends no process. */
import { Command, CommanderError } from "commander";
import { addAgentCommands } from "./agents.ts";
import type { CliContext } from "./command.ts";
import { CommandFailed, exitCodeHelp, exitCodes } from "./exit-codes.ts";
import { addKeyCommands } from "./keys.ts";
import { addReportCommands } from "./reports.ts";
import { addTenantCommands } from "./tenants.ts";

const EXAMPLES = `
Examples:
  npm run admin -- tenants create acme
  npm run admin -- keys create --tenant acme --name ci --rpm 60
  npm run admin -- usage --by key,model --json
  npm run admin -- consistency

The credential comes from LOCKGATE_ADMIN_TOKEN, or from a file {"url", "token"} that only its owner may read, named by
--credential or LOCKGATE_ADMIN_CREDENTIAL; never from a flag. npm start prints where the file of a local edge is.`;

/** Runs the words after the program's name; resolves with the exit code. */
export const runAdmin = async (words: readonly string[], context: Omit<CliContext, "endWith">): Promise<number> => {
  let exitCode: number = exitCodes.ok;
  const program = new Command("admin")
    .description("Administers an edge: keys, tenants, agents, usage, the audit log.")
    .addHelpText("after", EXAMPLES)
    .addHelpText("afterAll", exitCodeHelp)
    .exitOverride()
    .configureOutput({ writeOut: context.writeOut, writeErr: context.writeError });
  const full: CliContext = {
    ...context,
    endWith: (code) => {
      exitCode = code;
    },
  };
  addKeyCommands(program, full);
  addTenantCommands(program, full);
  addAgentCommands(program, full);
  addReportCommands(program, full);
  try {
    await program.parseAsync([...words], { from: "user" });
    return exitCode;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? exitCodes.ok : exitCodes.usage;
    if (!(error instanceof CommandFailed)) throw error;
    context.writeError(`admin: ${error.message}\n`);
    return error.exitCode;
  }
};
