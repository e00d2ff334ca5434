import { once } from "node:events";
import { existsSync } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { dirname } from "node:path";
import test from "ava";
import { poll } from "../helpers/agent-process.ts";
import { adminOf, allPids, kill, type Ready, start, startReady, untilAllGone } from "../helpers/local-start.ts";

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

test.serial(
  "the admin credential is in a file that its owner alone may read, it opens the admin API, and it is gone with the end",
  async (t) => {
    const { child, ready, exited } = await startReady("--replicas", "1");
    try {
      t.is((await stat(ready.admin)).mode & 0o777, 0o600);
      t.is((await stat(dirname(ready.admin))).mode & 0o777, 0o700);
      const { url, token, admin } = await adminOf(ready);
      t.is(url, ready.edge);
      t.like((await admin("GET", "/keys")).body.data, [{ tenant: "demo", state: "active" }]);
      t.is((await ask(ready, "What is the ISO code of Portugal?")).status, 200);
      const { body } = await poll(
        () => admin("GET", "/usage?group_by=tenant,agent"),
        (answer) => answer.body.data.length > 0,
        "the usage of the question",
      );
      t.like(body.data, [{ tenant: "demo", agent: "local-1", turns: 1 }]);
      for (const pid of allPids(ready)) {
        t.false((await readFile(`/proc/${pid}/cmdline`, "utf8")).includes(token), String(pid));
      }
      child.kill("SIGTERM");
      t.is(await exited, 0);
      t.false(existsSync(dirname(ready.admin)));
    } finally {
      kill(child);
    }
  },
);

test.serial(
  "two agents start, each with its own key and name, heartbeats of both arrive, and the end of one ends all",
  async (t) => {
    const { child, ready, exited } = await startReady("--replicas", "1", "--agents", "2");
    try {
      t.deepEqual(
        ready.agents.map(({ name }) => name),
        ["local-1", "local-2"],
      );
      t.true(ready.agent === ready.agents[0]?.url);
      t.is(new Set(ready.agents.map(({ url }) => url)).size, 2);
      t.is(ready.pids.replicas.length, 2);
      const { admin } = await adminOf(ready);
      const isReady = ({ heartbeat }: { heartbeat: { state: string } | null }) => heartbeat?.state === "ready";
      await poll(
        () => admin("GET", "/agents"),
        ({ body }) => body.data.length === 2 && body.data.every(isReady),
        "the heartbeats of both",
      );
      process.kill(ready.pids.agents[1] ?? 0, "SIGKILL");
      t.is(await exited, 70);
      t.true(await untilAllGone(ready));
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
  for (const flag of [
    "--port",
    "--agent-port",
    "--agents",
    "--replicas",
    "--slots",
    "--model",
    "--wire-log",
    "--json",
  ]) {
    t.true(printed.join("\n").includes(flag), flag);
  }
});
