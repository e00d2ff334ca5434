/** `gpu-agent models` on real files. */
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import test from "ava";
import { runAgentCommand } from "../helpers/agent-command.ts";

const model = fileURLToPath(new URL("../../gpu-agent/models/tiny-atlas-3m-q8_0.gguf", import.meta.url));
const directory = mkdtempSync(join(tmpdir(), "lockgate-models-"));
test.after.always(() => rmSync(directory, { recursive: true, force: true }));

copyFileSync(model, join(directory, "whole.gguf"));
copyFileSync(model, join(directory, "big-00001-of-00002.gguf"));
copyFileSync(model, join(directory, "big-00002-of-00002.gguf"));
writeFileSync(join(directory, "cut.gguf"), readFileSync(model).subarray(0, 500));
writeFileSync(join(directory, "notes.txt"), "no model");

const models = (...words: string[]) => runAgentCommand(["models", ...words]);

test("inspect tells the built-in model's architecture, size, format, context, template and memory", async (t) => {
  const { code, stdout, stderr } = await models("inspect", model, "--slots", "4", "--json");
  t.is(code, 0, stderr);
  const report = JSON.parse(stdout) as {
    facts: Record<string, unknown>;
    kvBytesPerToken: number;
    need: Record<string, unknown>;
    fits: { devices: string[]; verdict: string; needBytes: number }[];
  };
  t.like(report.facts, {
    architecture: "llama",
    parameters: 2_885_888,
    weightBytes: 3_073_024,
    quantisation: "Q8_0",
    trainedContext: 2_048,
    layers: 4,
    vocabularySize: 1_024,
    template: { present: true, renders: true, problem: null },
  });
  t.is(report.kvBytesPerToken, 4_096);
  t.is(report.need.kvBytesPerSlot, 2_048 * 4_096);
  const [cpu] = report.fits;
  t.like(cpu, { devices: ["CPU"], verdict: "fits", needBytes: 3_073_024 + 4 * 2_048 * 4_096 });
});

test("inspect for a terminal says the same in words", async (t) => {
  const { stdout } = await models("inspect", model, "--context", "1024", "--kv-type", "q8_0");
  t.regex(stdout, /^architecture +llama$/m);
  t.regex(stdout, /^weights +2\.9 MiB, Q8_0$/m);
  t.regex(stdout, /^chat template +in the file, renders$/m);
  t.regex(stdout, /^KV cache +2\.1 KiB a token \(q8_0\), 2\.1 MiB a slot of 1024 tokens$/m);
  t.regex(stdout, /^on CPU +fits: 5\.1 MiB of /m);
});

test("inspect of what is no model ends with 65, of a file that is missing with 66, each in one line", async (t) => {
  for (const [file, exitCode] of [
    [join(directory, "cut.gguf"), 65],
    [join(directory, "notes.txt"), 65],
    [join(directory, "missing.gguf"), 66],
  ] as const) {
    const { code, stdout, stderr } = await models("inspect", file);
    t.is(code, exitCode, file);
    t.is(stdout, "");
    t.is(stderr.trim().split("\n").length, 1, stderr);
  }
});

test("list has the built-in model and the folder's models once each, and says why one cannot be read", async (t) => {
  const { code, stdout } = await models("list", directory, "--json");
  t.is(code, 0);
  const listed = JSON.parse(stdout) as { file: string; problem?: string; facts?: { architecture: string } }[];
  t.deepEqual(
    listed.map(({ file, problem }) => [file.replace(`${directory}/`, ""), problem === undefined]),
    [
      ["tiny-atlas-3m-q8_0.gguf (built-in)", true],
      ["big-00001-of-00002.gguf", true],
      ["cut.gguf", false],
      ["whole.gguf", true],
    ],
  );
  const table = (await models("list", directory)).stdout;
  t.regex(table, /whole\.gguf +llama +2\.9M +2\.9 MiB +Q8_0 +2048$/m);
  t.regex(table, /cut\.gguf +cannot be read: /);
});

test("a folder that is not there ends with 66, a bad value with 64 or 78 by where it came from", async (t) => {
  t.is((await models("list", join(directory, "none"))).code, 66);
  t.is((await models("inspect", model, "--slots", "0")).code, 64);
  const env = { LOCKGATE_MODELS_INSPECT_SLOTS: "0" };
  const { code, stderr } = await runAgentCommand(["models", "inspect", model], { env });
  t.is(code, 78);
  t.regex(stderr, /LOCKGATE_MODELS_INSPECT_SLOTS is 0; it must be a whole number from 1 to 64/);
});
