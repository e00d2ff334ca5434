import type { Backend, Device } from "@lockgate/native";
import test from "ava";
import {
  type Check,
  checkAddon,
  checkBackends,
  checkDevices,
  checkDriver,
  checkEdge,
  checkLines,
  checkMemory,
  checkModel,
  checkNode,
  checkPort,
} from "../../gpu-agent/src/cli/doctor-checks.ts";
import type { ModelFacts } from "../../gpu-agent/src/cli/model-facts.ts";
import { loadServeConfig, type ServeConfig } from "../../gpu-agent/src/config/load-serve-config.ts";

const GIB = 1024 ** 3;
const cpu: Device = {
  name: "CPU",
  description: "Some CPU",
  kind: "cpu",
  memoryFreeBytes: 8 * GIB,
  memoryTotalBytes: 16 * GIB,
};
const gpu = (name: string): Device => ({ ...cpu, name, kind: "gpu", description: "Some GPU" });

const configOf = (...argv: string[]): ServeConfig => {
  const result = loadServeConfig({
    argv: ["serve", ...argv],
    env: { LOCKGATE_LOCAL_KEY: "0123456789abcdef" },
    readFile: () => "",
    builtInModelPath: "/m/built-in.gguf",
    version: "0",
  });
  if (!result.ok) throw new Error(result.message);
  return result.config;
};

const facts: ModelFacts = {
  name: null,
  architecture: "llama",
  parameters: 8e9,
  weightBytes: 4 * GIB,
  quantisation: "Q4_K_M",
  trainedContext: 8_192,
  layers: 32,
  vocabularySize: 1,
  kvValuesPerToken: 65_536,
  kvIsUpperBound: false,
  template: { present: true, renders: true, problem: null },
};

const levels = (checks: readonly Check[]) => checks.map(({ level, what }) => `${level} ${what}`);

test("every line that is not ok has a cure, and no line that is ok has one", (t) => {
  const all = [
    checkNode("20.1.0"),
    checkAddon("gone", "build.mjs"),
    checkDriver({ version: null, controlNode: false }, ["CUDA0"]),
    ...checkDevices([cpu], configOf("--devices", "CUDA0")),
    checkPort("port", "::1", 1, "EACCES"),
    checkPort("port", "::1", 1, null),
    checkEdge("https://e", { kind: "unreachable", reason: "ENOTFOUND" }),
    checkNode("24.0.0"),
  ];
  for (const { level, cure, what } of all) t.is(cure === null, level === "ok", what);
});

test("Node 22.19 and newer will do, 22.18 and 20 will not", (t) => {
  t.deepEqual(
    ["22.19.0", "23.0.0", "24.22.3", "22.18.9", "20.20.2"].map((version) => checkNode(version).level),
    ["ok", "ok", "ok", "fail", "fail"],
  );
});

test("an addon that is not built is a fail that names the command, on one line", (t) => {
  t.is(checkAddon(null, "x").level, "ok");
  const { level, finding, cure } = checkAddon("not\n built", "native/scripts/build.mjs");
  t.is(level, "fail");
  t.is(finding, "not built");
  t.regex(cure ?? "", /node native\/scripts\/build\.mjs/);
});

const closed =
  "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\nGCC version: 12\n";
const open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs-builder@x)\n";

test("the driver's version is read in both of its forms", (t) => {
  t.is(checkDriver({ version: closed, controlNode: true }, []).finding, "NVIDIA 535.183.01");
  t.is(checkDriver({ version: open, controlNode: true }, []).finding, "NVIDIA 580.95.05");
});

test("no driver is well unless CUDA devices are asked for; a driver without its device file is a warning until they are", (t) => {
  const level = (version: string | null, controlNode: boolean, ...devices: string[]) =>
    checkDriver({ version, controlNode }, devices).level;
  t.is(level(null, false), "ok");
  t.is(level(null, false, "CPU"), "ok");
  t.is(level(null, false, "CUDA0"), "fail");
  t.is(level(open, false), "warn");
  t.is(level(open, false, "CUDA0"), "fail");
  t.is(level(open, true, "CUDA0"), "ok");
});

const backend = (name: Backend["name"], reason: string | null, path: string | null = "/lib/x.so"): Backend => ({
  name,
  path,
  loaded: reason === null,
  reason,
});

test("a CUDA backend that did not load matters where there is a driver, and fails where it is asked for", (t) => {
  const of = (driver: boolean, ...devices: string[]) =>
    levels(checkBackends([backend("cpu", null), backend("cuda", "libcublas.so.13: no such file")], driver, devices));
  t.deepEqual(of(false), ["ok backend cpu", "ok backend cuda"]);
  t.deepEqual(of(true), ["ok backend cpu", "warn backend cuda"]);
  t.deepEqual(of(true, "CUDA0"), ["ok backend cpu", "fail backend cuda"]);
  t.deepEqual(of(false, "CUDA0"), ["ok backend cpu", "fail backend cuda"]);
});

test("the cure for CUDA tells a missing package from a missing library, and Vulkan is never a fault", (t) => {
  const cure = (path: string | null) => checkBackends([backend("cuda", "why", path)], true, [])[0]?.cure ?? "";
  t.regex(cure(null), /gpu:cuda/);
  t.regex(cure("/lib/x.so"), /libcudart\.so\.13/);
  t.deepEqual(levels(checkBackends([backend("vulkan", "why")], true, ["CUDA0"])), ["ok backend vulkan"]);
  t.deepEqual(levels(checkBackends([backend("cpu", "why")], false, [])), ["fail backend cpu"]);
});

test("devices: each has a line; strangers, doubles and uneven shares fail with the names that there are", (t) => {
  const machine = [cpu, gpu("CUDA0"), gpu("CUDA1")];
  const found = ["ok device CPU", "ok device CUDA0", "ok device CUDA1"];
  t.deepEqual(levels(checkDevices(machine, configOf("--replicas", "2"))), found);
  for (const argv of [
    ["--devices", "CUDA7"],
    ["--devices", "CUDA0,CUDA0"],
    ["--devices", "CUDA0", "--replicas", "2"],
  ]) {
    const checks = checkDevices(machine, configOf(...argv));
    t.deepEqual(levels(checks), [...found, "fail placement"], argv.join(" "));
    t.regex(checks.at(-1)?.cure ?? "", /CPU, CUDA0, CUDA1/);
  }
});

test("another engine's device names are its own affair", (t) => {
  const config = configOf("--devices", "npu:0", "--engine-command", '["engine"]');
  t.deepEqual(levels(checkDevices([cpu], config)), ["ok device CPU"]);
});

test("a model: a context beyond its own and a template that does not render fail, no template is a warning", (t) => {
  const config = configOf("--context", "8192");
  t.is(checkModel(facts, config).level, "ok");
  t.is(checkModel(facts, configOf("--context", "8193")).level, "fail");
  const broken = { present: true, renders: false, problem: "line 1: unexpected end" };
  t.regex(checkModel({ ...facts, template: broken }, config).finding, /unexpected end/);
  t.is(checkModel({ ...facts, template: broken }, config).level, "fail");
  t.is(checkModel({ ...facts, template: { present: false, renders: true, problem: null } }, config).level, "warn");
});

test("memory: too large for GPUs fails, too large for the CPU is a warning, since it may page", (t) => {
  // 4 GiB of weights and 1 GiB a slot against 8 GiB.
  t.deepEqual(levels(checkMemory(facts, [cpu], configOf())), ["ok memory CPU"]);
  t.deepEqual(levels(checkMemory(facts, [cpu], configOf("--slots", "8"))), ["warn memory CPU"]);
  t.deepEqual(levels(checkMemory(facts, [cpu, gpu("CUDA0")], configOf("--slots", "8"))), ["fail memory CUDA0"]);
  t.deepEqual(levels(checkMemory(facts, [cpu, gpu("CUDA0")], configOf("--slots", "4"))), ["warn memory CUDA0"]);
  t.deepEqual(levels(checkMemory(facts, [cpu], configOf("--replicas", "2"))), ["warn memory CPU"]);
  t.deepEqual(levels(checkMemory(facts, [cpu], configOf("--devices", "CUDA7"))), []);
});

test("a port: free, any, taken, not ours", (t) => {
  t.is(checkPort("port", "127.0.0.1", 8_788, null).level, "ok");
  t.regex(checkPort("port", "127.0.0.1", 0, null).finding, /any free port/);
  t.regex(checkPort("port", "127.0.0.1", 8_788, "EADDRINUSE").finding, /127\.0\.0\.1:8788 is taken/);
  t.regex(checkPort("port", "192.0.2.1", 8_788, "EADDRNOTAVAIL").finding, /EADDRNOTAVAIL/);
  t.regex(checkPort("metrics-port", "::1", 80, "EACCES").cure ?? "", /--metrics-host .*--metrics-port/);
});

/** The edge's Date is `aheadMs` ahead of our clock, asked at :00.000, answered 40 ms later. */
const clock = (aheadMs: number) => {
  const sentMs = Date.UTC(2026, 0, 2, 3, 4, 0);
  const date = new Date(sentMs + 20 + aheadMs).toUTCString();
  return checkEdge("https://edge", { kind: "answered", status: 200, date, sentMs, receivedMs: sentMs + 40 });
};

test("a clock within 30 s of the edge's is ok, beyond 60 s it fails, and the line says which way", (t) => {
  t.deepEqual(
    [0, 29_000, -29_000, 40_000, -40_000, 59_000, 62_000, -62_000].map((ahead) => clock(ahead).level),
    ["ok", "ok", "ok", "warn", "warn", "warn", "fail", "fail"],
  );
  t.regex(clock(62_000).finding, /^6[12]\.\d s behind/);
  t.regex(clock(-62_000).finding, /^6[12]\.\d s ahead of/);
});

test("an edge that has no date, answers something else or nothing is said to", (t) => {
  const answered = { kind: "answered", date: null, sentMs: 0, receivedMs: 1 } as const;
  t.is(checkEdge("https://e", { ...answered, status: 200 }).level, "warn");
  t.regex(checkEdge("https://e", { ...answered, status: 404 }).finding, /answers 404/);
  t.is(checkEdge("https://e", { kind: "unreachable", reason: "ENOTFOUND" }).level, "fail");
});

test("lines line up: level, what, finding, cure in brackets", (t) => {
  t.deepEqual(
    checkLines([
      { level: "ok", what: "node", finding: "24", cure: null },
      { level: "fail", what: "port x", finding: "taken", cure: "use another" },
    ]),
    ["ok    node    24", "fail  port x  taken  (use another)"],
  );
});
