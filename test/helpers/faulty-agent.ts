/**
 * `gpu-agent serve` in a test-only composition: a faulty ownership subject, its lock armed on a seeded tenth of the releases, and engines
 * whose tags are taken off (a tagged engine hides fault 1). Shows that the isolation gate bites. Words: subject, seed, then serve's own.
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { addServeCommand, createProgram, runProgram } from "../../gpu-agent/src/config/command-line.ts";
import { resolveServeConfig } from "../../gpu-agent/src/config/load-serve-config.ts";
import { type SubjectName, subjects } from "../../gpu-agent/src/ownership/subjects/index.ts";
import type { SpawnEngine } from "../../gpu-agent/src/replicas/engine.ts";
import type { HandOver } from "../../gpu-agent/src/replicas/lease-queue.ts";
import { serve } from "../../gpu-agent/src/serve.ts";
import { seededRandom } from "./seeded-random.ts";

const ARMED_SHARE = 0.1;

/** A release is over, on its seeded share, only when the successor that got the slot has released it again. */
const armed = (random: () => number): HandOver => {
  const released = new Map<number, () => void>();
  return (slot, hasSuccessor) => {
    released.get(slot)?.();
    released.delete(slot);
    if (!hasSuccessor || random() >= ARMED_SHARE) return undefined;
    return new Promise((resolve) => released.set(slot, resolve));
  };
};

/** The engine as one of the base grammar: no tags in either direction, no `turns` in READY. */
const withoutTags =
  (spawn: SpawnEngine): SpawnEngine =>
  (events) => {
    let rest = "";
    let tag = 0;
    const inner = spawn({
      ...events,
      output: (chunk) => {
        const lines = (rest + chunk.toString("utf8")).split("\n");
        rest = lines.pop() ?? "";
        const plain = lines
          .map((line) => `${line.replace(/ turn=\d+$/, "").replace(/^(READY .*) turns/, "$1")}\n`)
          .join("");
        if (plain !== "") events.output(Buffer.from(plain));
      },
    });
    return {
      ...inner,
      // The engine behind still wants a tag in its log; the agent that is tested never sees it.
      write: (line) => {
        if (line.startsWith("GEN")) tag++;
        inner.write(line.replace(/^(GEN \d+)/, `$1 turn=${tag}`));
      },
    };
  };

const [subject, seed, ...words] = process.argv.slice(2);
const program = createProgram({
  version: "0",
  writeOut: () => {},
  writeError: (text) => void process.stderr.write(text),
});
let exitCode = 1;
addServeCommand(program, async (flags) => {
  const resolved = resolveServeConfig(flags, {
    env: process.env,
    readFile: (path) => readFileSync(path, "utf8"),
    builtInModelPath: fileURLToPath(new URL("../../gpu-agent/models/tiny-atlas-3m-q8_0.gguf", import.meta.url)),
  });
  if (!resolved.ok) throw new Error(resolved.message);
  const random = seededRandom(Number(seed));
  exitCode = await serve(
    resolved.config,
    { writeOut: (text) => void process.stdout.write(text), writeError: (text) => void process.stderr.write(text) },
    { open: subjects[subject as SubjectName](), handOver: () => armed(random), wrapSpawn: withoutTags },
  );
});
process.exit((await runProgram(program, words)) ?? exitCode);
