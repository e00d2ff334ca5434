import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { fileURLToPath } from "node:url";
import test from "ava";
import { z } from "zod";
import { untilGone } from "../helpers/edge-worker-processes.ts";
import { type Started, startScript } from "../helpers/processes.ts";

const script = fileURLToPath(new URL("../../edge/local/start.ts", import.meta.url));

const readySchema = z.strictObject({
  edge: z.url(),
  agent: z.url(),
  key: z.string().min(20),
  model: z.string().min(1),
  pids: z.strictObject({
    edge: z.array(z.number()).length(1),
    agent: z.number(),
    replicas: z.array(z.number()),
    start: z.number(),
  }),
});
type Ready = z.infer<typeof readySchema>;

const start = (...words: string[]): Started => startScript(script, words);

const startReady = async (...words: string[]): Promise<Started & { ready: Ready; lines: string[] }> => {
  const started = start("--json", "--port", "0", "--agent-port", "0", ...words);
  const lines: string[] = [];
  started.stdout.on("line", (line) => lines.push(line));
  const ready = readySchema.parse(JSON.parse(await started.firstLine));
  return { ...started, ready, lines };
};

const allPids = ({ pids }: Ready): number[] => [...pids.edge, pids.agent, ...pids.replicas, pids.start];

const untilAllGone = async (ready: Ready): Promise<boolean> =>
  (await Promise.all(allPids(ready).map(untilGone))).every(Boolean);

const kill = (child: ChildProcess): void => void child.kill("SIGKILL");

const ask = (ready: Ready, content: string) =>
  fetch(`${ready.edge}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${ready.key}`, "content-type": "application/json" },
    body: JSON.stringify({ model: ready.model, temperature: 0, messages: [{ role: "user", content }] }),
  });

test.serial(
  "one JSON line says where everything is, a question gets its answer, SIGTERM ends all with 0",
  async (t) => {
    const { child, ready, lines, exited } = await startReady("--replicas", "2");
    try {
      t.true(ready.pids.start === child.pid);
      t.is(ready.pids.replicas.length, 2);
      const answer = await ask(ready, "What is the ISO code of Portugal?");
      t.is(answer.status, 200);
      t.regex(await answer.text(), /PT \(alpha-2\), PRT \(alpha-3\) and 620/);
      child.kill("SIGTERM");
      t.is(await exited, 0);
      t.true(await untilAllGone(ready));
      t.is(lines.length, 1);
    } finally {
      kill(child);
    }
  },
);

test.serial("no key stands on any command line", async (t) => {
  const { child, ready, exited } = await startReady("--replicas", "1");
  try {
    for (const pid of allPids(ready)) {
      t.false((await readFile(`/proc/${pid}/cmdline`, "utf8")).includes(ready.key), String(pid));
    }
    const environment = await readFile(`/proc/${ready.pids.agent}/environ`, "utf8");
    const secret = /LOCKGATE_SIGNING_KEYS=\{"[^"]+":"([^"]+)"/.exec(environment)?.[1];
    t.truthy(secret);
    for (const pid of allPids(ready)) {
      t.false((await readFile(`/proc/${pid}/cmdline`, "utf8")).includes(secret ?? ""), String(pid));
    }
    child.kill("SIGINT");
    t.is(await exited, 0);
  } finally {
    kill(child);
  }
});

test.serial("a starter that is killed leaves no process behind", async (t) => {
  const { child, ready } = await startReady("--replicas", "1");
  kill(child);
  t.true(await untilAllGone(ready));
});

test.serial("an agent that dies ends everything, with 70 and a line that says so", async (t) => {
  const { child, ready, exited, stderr } = await startReady("--replicas", "1");
  try {
    process.kill(ready.pids.agent, "SIGKILL");
    t.is(await exited, 70);
    t.regex(await stderr, /the agent has ended/);
    t.true(await untilAllGone(ready));
  } finally {
    kill(child);
  }
});

test.serial("SIGTERM during the start ends it, with 0", async (t) => {
  const { child, exited } = start("--json", "--port", "0", "--agent-port", "0");
  try {
    await once(child.stderr, "data");
    child.kill("SIGTERM");
    t.is(await exited, 0);
  } finally {
    kill(child);
  }
});

test.serial("a port that is taken is named with its flag, exit 69", async (t) => {
  const holder = createServer().listen(0, "127.0.0.1");
  await once(holder, "listening");
  const { port } = holder.address() as AddressInfo;
  try {
    for (const [flag, other] of [
      ["--port", "--agent-port"],
      ["--agent-port", "--port"],
    ] as const) {
      const { exited, stderr } = start(flag, String(port), other, "0");
      t.is(await exited, 69);
      const lines = (await stderr).trim().split("\n");
      t.is(lines.length, 1);
      t.regex(lines[0] ?? "", new RegExp(`port ${port} .*${flag}`));
    }
  } finally {
    holder.close();
  }
});

test.serial("a model file that is not there is told once, with the agent's exit code", async (t) => {
  const { exited, stderr } = start("--port", "0", "--agent-port", "0", "--model", "no-such-file.gguf");
  t.is(await exited, 66);
  t.regex(await stderr, /no-such-file\.gguf/);
});

test.serial("an unknown flag is one clear line and 64; help is on stdout and 0", async (t) => {
  const unknown = start("--nope");
  t.is(await unknown.exited, 64);
  t.is((await unknown.stderr).trim(), "error: unknown option '--nope'");
  const help = start("--help");
  const printed: string[] = [];
  help.stdout.on("line", (line) => printed.push(line));
  t.is(await help.exited, 0);
  for (const flag of ["--port", "--agent-port", "--replicas", "--slots", "--model", "--wire-log", "--json"]) {
    t.true(printed.join("\n").includes(flag), flag);
  }
});
