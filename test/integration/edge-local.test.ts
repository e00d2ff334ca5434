import { spawn } from "node:child_process";
import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import test from "ava";
import { startEdgeWorker } from "../../edge/local/edge-worker.ts";
import { readWranglerConfig } from "../../edge/local/wrangler-config.ts";
import { isRunning, untilGone } from "../helpers/edge-worker-processes.ts";

process.once("disconnect", () => process.exit(1));

const refusesConnections = async (url: string): Promise<boolean> => {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  const outcome = await Promise.race([
    once(socket, "connect").then(() => false),
    once(socket, "error").then(() => true),
  ]).catch(() => true);
  socket.destroy();
  return outcome;
};

test.serial("a stopped edge leaves no process and no port", async (t) => {
  const edge = await startEdgeWorker({ env: {} });
  t.is(edge.pids.length, 1);
  t.is((await fetch(`${edge.url}/healthz`)).status, 200);
  const [pid = 0] = edge.pids;
  await edge.stop();
  t.true(await untilGone(pid));
  t.deepEqual(edge.pids, []);
  t.true(await refusesConnections(edge.url));
});

test.serial("workerd ends when the process that started it is killed", async (t) => {
  const script = fileURLToPath(new URL("../helpers/edge-worker-parent.ts", import.meta.url));
  const parent = spawn(process.execPath, [script], { stdio: ["ignore", "pipe", "inherit"] });
  const [line] = await once(createInterface({ input: parent.stdout }), "line");
  const { pids } = JSON.parse(String(line)) as { pids: number[] };
  const [pid = 0] = pids;
  t.true(await isRunning(pid));
  parent.kill("SIGKILL");
  await once(parent, "exit");
  t.true(await untilGone(pid));
});

test.serial("edges that start at the same time know their own processes", async (t) => {
  const edges = await Promise.all([startEdgeWorker({ env: {} }), startEdgeWorker({ env: {} })]);
  t.is(new Set(edges.flatMap((edge) => edge.pids)).size, 2);
  t.deepEqual(
    edges.map((edge) => edge.pids.length),
    [1, 1],
  );
  await Promise.all(edges.map((edge) => edge.stop()));
});

test.serial("a worker that does not bundle fails at once, with the bundler's message", async (t) => {
  const error = await t.throwsAsync(startEdgeWorker({ env: {}, main: "edge/src/not-there.ts" }));
  t.regex(error?.message ?? "", /not-there/);
});

test.serial("a port that is taken is told by a code of its own", async (t) => {
  const holder = createServer().listen(0, "127.0.0.1");
  await once(holder, "listening");
  const { port } = holder.address() as AddressInfo;
  await t.throwsAsync(startEdgeWorker({ env: {}, port }), { code: "ERR_ADDRESS_IN_USE" });
  holder.close();
});

test.serial("the local edge runs with the compatibility settings that are deployed", async (t) => {
  const config = await readWranglerConfig();
  t.is(config.main, "edge/src/worker.ts");
  t.true(config.compatibility_flags.includes("request_signal_passthrough"));
  t.true(
    config.compatibility_date >= "2026-11-17" || config.compatibility_flags.includes("enable_request_signal"),
    "a request without its signal cannot be cancelled",
  );
});
