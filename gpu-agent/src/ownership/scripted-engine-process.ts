/** The scripted engine as a process: commands on stdin, answers on stdout. Ends with its input. */
import { createInterface } from "node:readline";
import { z } from "zod";
import { type EngineScript, ScriptedEngine } from "./scripted-engine.ts";

const scriptSchema = z.object({
  capabilities: z.string(),
  maxContext: z.number().int().positive(),
  turns: z.array(
    z.object({
      tokens: z.number().int().min(0).optional(),
      sendFirst: z.number().int().min(0).optional(),
      hold: z.enum(["stop-or-next", "stop", "manual", "forever"]).optional(),
      refuse: z.string().optional(),
      finish: z.string().optional(),
    }),
  ),
});

/** Runs until stdin ends or QUIT. Throws for a script that does not parse. */
export const runScriptedEngine = async (script: string): Promise<void> => {
  const parsed = scriptSchema.parse(JSON.parse(script)) as EngineScript;
  const engine = new ScriptedEngine(parsed, (line) => process.stdout.write(`${line}\n`));
  engine.start();
  for await (const line of createInterface({ input: process.stdin })) {
    if (!engine.command(line)) break;
  }
};
