/** The agent's entry on a Node that runs no TypeScript, as one that somebody's PATH finds first may be. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import test from "ava";

const entry = fileURLToPath(new URL("../../gpu-agent/bin/gpu-agent.js", import.meta.url));

test("in a checkout it says which command takes the right Node, without a stack, and ends with 69", async (t) => {
  const words = ["--no-experimental-strip-types", entry, "--help"];
  const error = await t.throwsAsync<Error & { code: number; stdout: string; stderr: string }>(
    promisify(execFile)(process.execPath, words),
  );
  t.is(error?.code, 69);
  t.is(error?.stdout, "");
  t.regex(error?.stderr ?? "", /^gpu-agent: Node \d+\.\d+\.\d+ cannot run .*`npx gpu-agent`.*\n$/);
});
