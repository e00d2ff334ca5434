/**
 * The newcomer's path: a fresh clone of what is committed, an npm cache of its own that is empty, and the README's commands. Once as they
 * stand there, once with install scripts off.
 */
import { execFile, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import test, { type ExecutionContext } from "ava";
import { untilGone } from "../helpers/edge-worker-processes.ts";
import { expectedAnswer } from "../helpers/expected-answers.ts";

process.once("disconnect", () => process.exit(1));

const root = fileURLToPath(new URL("../../", import.meta.url));
/** Without what this run's own npm and its private Node have put in front, and the cache that the tests share. */
const cleanEnvironment = (): NodeJS.ProcessEnv => ({
  ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^npm_|^NODE_COMPILE_CACHE$/.test(name))),
  PATH: (process.env.PATH ?? "")
    .split(":")
    .filter((entry) => !entry.includes("node_modules"))
    .join(":"),
});

const cloneAndStart = async (t: ExecutionContext, installFlags: readonly string[]): Promise<void> => {
  const directory = mkdtempSync(join(tmpdir(), "lockgate-clone-"));
  try {
    const clone = join(directory, "lockgate");
    execFileSync("git", ["clone", "--quiet", root, clone]);
    const env = { ...cleanEnvironment(), npm_config_cache: join(directory, "npm-cache") };
    const startedMs = performance.now();
    await promisify(execFile)("npm", ["ci", ...installFlags], { cwd: clone, env });
    const installedMs = performance.now();
    const npm = spawn("npm", ["start", "--", "--json", "--port", "0", "--agent-port", "0"], {
      cwd: clone,
      env,
      stdio: ["ignore", "pipe", "inherit"],
    });
    let ready:
      | { edge: string; key: string; pids: { edge: number[]; agent: number; replicas: number[]; start: number } }
      | undefined;
    for await (const line of createInterface({ input: npm.stdout })) {
      if (!line.startsWith("{")) continue;
      ready = JSON.parse(line);
      break;
    }
    if (ready === undefined) throw new Error("npm start printed no JSON line");
    const { messages, expected } = expectedAnswer("fact-001");
    const response = await fetch(`${ready.edge}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${ready.key}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "default", messages }),
    });
    const answer = (await response.json()) as { choices: [{ message: { content: string } }] };
    t.is(answer.choices[0].message.content, expected);
    t.log(
      `npm ci ${((installedMs - startedMs) / 1000).toFixed(1)} s, first answer ${((performance.now() - installedMs) / 1000).toFixed(1)} s later`,
    );
    process.kill(ready.pids.start, "SIGTERM");
    const exited = once(npm, "exit");
    t.deepEqual((await exited)[0], 0);
    for (const pid of [...ready.pids.edge, ready.pids.agent, ...ready.pids.replicas]) t.true(await untilGone(pid));
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
};

test.serial("npm ci && npm start, from a fresh clone and an empty cache, answers", async (t) => {
  t.timeout(600_000);
  await cloneAndStart(t, []);
});

test.serial("npm ci --ignore-scripts && npm start does too", async (t) => {
  t.timeout(600_000);
  await cloneAndStart(t, ["--ignore-scripts"]);
});
