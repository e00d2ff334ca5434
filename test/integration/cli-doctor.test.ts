/** `gpu-agent doctor` on this machine: it says ok where serve would start, and names each fault with its cure where it would not. */
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "ava";
import { z } from "zod";
import { type CommandEnd, runAgentCommand } from "../helpers/agent-command.ts";
import { makeUnbuiltCheckout } from "../helpers/unbuilt-checkout.ts";

const directory = mkdtempSync(join(tmpdir(), "lockgate-doctor-"));
test.after.always(() => rmSync(directory, { recursive: true, force: true }));

const withKey = { LOCKGATE_LOCAL_KEY: "a-local-key-of-a-test" };

const checksSchema = z.array(
  z.object({
    level: z.enum(["ok", "warn", "fail"]),
    what: z.string(),
    finding: z.string(),
    cure: z.string().nullable(),
  }),
);

const doctor = async (words: readonly string[], env: NodeJS.ProcessEnv = withKey) => {
  const ended = await runAgentCommand(["doctor", "--json", ...words], { env });
  const checks = checksSchema.parse(JSON.parse(ended.stdout));
  return { ...ended, checks, of: (what: string) => checks.find((check) => check.what === what) };
};

const listenOn = async (server: Server): Promise<number> => {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
};

test("on this machine with the built-in model nothing fails, and the exit code is 0", async (t) => {
  const { code, checks, of } = await doctor(["--port", "0"]);
  t.deepEqual(
    checks.filter(({ level }) => level === "fail"),
    [],
  );
  t.is(code, 0);
  for (const what of ["node", "config", "driver", "addon", "backend cpu", "device CPU", "model", "port"]) {
    t.is(of(what)?.level, "ok", what);
  }
  t.true(checks.some(({ what }) => what.startsWith("memory ")));
});

test("the lines for a terminal start with ok, warn or fail, and a fail shows its cure", async (t) => {
  const { code, stdout } = await runAgentCommand(["doctor", "--port", "0"]);
  t.is(code, 69);
  const lines = stdout.trimEnd().split("\n");
  for (const line of lines) t.regex(line, /^(ok|warn|fail) +\S/);
  t.regex(lines.find((line) => line.startsWith("fail")) ?? "", /^fail +config +no key is configured.*\(.+\)$/);
});

test("a wrong configuration is a fail that names what is wrong, and the machine is looked at all the same", async (t) => {
  const path = join(directory, "wrong.toml");
  writeFileSync(path, "prot = 1\n");
  const { code, of } = await doctor(["--config", path]);
  t.is(code, 69);
  t.is(of("config")?.level, "fail");
  t.regex(of("config")?.finding ?? "", /wrong\.toml: unknown key prot/);
  t.is(of("device CPU")?.level, "ok");
});

test("a port that is taken, a model that is none, a device that is not there: each fails on its line", async (t) => {
  const holder = createServer();
  const port = await listenOn(holder);
  try {
    const notModel = join(directory, "text.gguf");
    writeFileSync(notModel, "this is no model\n");
    const taken = ["--port", String(port), "--metrics-port", String(port)];
    const { code, of, checks } = await doctor([...taken, "--model", notModel, "--devices", "CUDA7"]);
    t.is(code, 69);
    t.regex(of("metrics-port")?.cure ?? "", /another --metrics-port/);
    t.regex(of("port")?.finding ?? "", new RegExp(`:${port} is taken`));
    t.regex(of("model")?.finding ?? "", /text\.gguf/);
    t.regex(of("placement")?.finding ?? "", /CUDA7/);
    for (const { level, cure } of checks) t.is(cure === null, level === "ok");
  } finally {
    holder.close();
  }
});

test("a context that the model has no room for fails before serve does", async (t) => {
  const { code, of } = await doctor(["--port", "0", "--context", "9999999"]);
  t.is(code, 69);
  t.regex(of("model")?.cure ?? "", /--context to 2048/);
});

/** Doctor's line about an edge whose clock is so far from ours. */
const clockOf = async (aheadMs: number) => {
  const edge = createServer((request, response) => {
    response.setHeader("date", new Date(Date.now() + aheadMs).toUTCString());
    response.writeHead(request.url === "/healthz" ? 200 : 404).end();
  });
  const url = `http://127.0.0.1:${await listenOn(edge)}`;
  try {
    return await doctor(["--port", "0", "--edge-url", url, "--spool", directory, "--agent-id", "gpu-1"], {
      LOCKGATE_SIGNING_KEYS: JSON.stringify({ k: "A".repeat(43) }),
    });
  } finally {
    edge.close();
    edge.closeAllConnections();
  }
};

test("an edge with our time is ok; one that is five minutes ahead fails and says that we are behind", async (t) => {
  const same = await clockOf(0);
  t.is(same.of("clock")?.level, "ok", same.stdout);
  const ahead = await clockOf(300_000);
  t.is(ahead.code, 69);
  t.regex(ahead.of("clock")?.finding ?? "", /^(299|300|301)\.\d s behind/);
});

test("an edge that does not answer fails with the system's reason", async (t) => {
  const gone = createServer();
  const port = await listenOn(gone);
  gone.close();
  const { of } = await doctor(["--port", "0", "--edge-url", `http://127.0.0.1:${port}`, "--spool", directory], {
    LOCKGATE_SIGNING_KEYS: JSON.stringify({ k: "A".repeat(43) }),
  });
  t.is(of("edge")?.level, "fail");
  t.regex(of("edge")?.finding ?? "", /ECONNREFUSED/);
});

test("without the built addon doctor says so, names the command that builds it, and builds nothing", async (t) => {
  const checkout = makeUnbuiltCheckout();
  try {
    const entry = join(checkout, "gpu-agent", "bin", "gpu-agent.js");
    // What Node compiles of a copy that goes away would stay in the tests' cache for ever.
    const env = { ...withKey, NODE_DISABLE_COMPILE_CACHE: "1" };
    const look = (): Promise<CommandEnd> => runAgentCommand(["doctor", "--port", "0"], { env, cwd: checkout, entry });
    for (const { code, stdout } of [await look(), await look()]) {
      t.is(code, 69);
      t.regex(stdout, /^fail +addon +.*not built.*node native\/scripts\/build\.mjs/m);
      t.regex(stdout, /^ok +port/m);
    }
  } finally {
    rmSync(checkout, { recursive: true, force: true });
  }
});

test("no key that doctor was given shows in what it says", async (t) => {
  const secret = "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA";
  const { stdout, stderr } = await doctor(["--port", "0"], {
    LOCKGATE_LOCAL_KEY: secret,
    LOCKGATE_SIGNING_KEYS: JSON.stringify({ k: secret }),
  });
  t.false(`${stdout}${stderr}`.includes(secret));
});
