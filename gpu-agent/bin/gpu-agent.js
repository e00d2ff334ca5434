#!/usr/bin/env node
// A checkout runs its sources, an installed package its bundle.
import { existsSync } from "node:fs";

/** EX_UNAVAILABLE of sysexits.h, as in src/config/exit-codes.ts, which an older Node cannot load. */
const UNAVAILABLE = 69;

const source = new URL("../src/cli.ts", import.meta.url);
if (!existsSync(source)) await import(new URL("../dist/cli.js", import.meta.url));
else if (process.features.typescript) await import(source);
else {
  process.stderr.write(
    `gpu-agent: Node ${process.versions.node} cannot run a checkout's TypeScript, Node 24 can; \`npx gpu-agent\` there takes the one that npm ci brought\n`,
  );
  process.exitCode = UNAVAILABLE;
}
