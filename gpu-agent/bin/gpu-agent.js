#!/usr/bin/env node
// A checkout runs its sources, an installed package its bundle.
import { existsSync } from "node:fs";

const source = new URL("../src/cli.ts", import.meta.url);
await import(existsSync(source) ? source : new URL("../dist/cli.js", import.meta.url));
