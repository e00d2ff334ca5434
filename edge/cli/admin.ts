/** The entry of `npm run admin`. It is the only place that ends the process. */
import { exitCodes } from "./exit-codes.ts";
import { runAdmin } from "./program.ts";

// A pipe that is gone takes no words any more.
for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});

try {
  process.exitCode = await runAdmin(process.argv.slice(2), {
    env: process.env,
    writeOut: (text) => void process.stdout.write(text),
    writeError: (text) => void process.stderr.write(text),
    nowMs: Date.now(),
  });
} catch (error) {
  process.stderr.write(`admin: a fault of this command: ${error instanceof Error ? error.stack : String(error)}\n`);
  process.exitCode = exitCodes.software;
}
