/** What the module reports of backends, devices, logs and cores. */
import { readdirSync, readFileSync } from "node:fs";
import * as native from "@lockgate/native";
import test from "ava";
import { linuxTest } from "../helpers/linux-test.ts";
import { runBody } from "./child.ts";
import { MODEL_PATH, outcomeOf } from "./support.ts";

test("the CPU is always there, as backend and as device", (t) => {
  const cpu = native.listBackends().find(({ name }) => name === "cpu");
  t.true(cpu?.loaded);
  t.is(cpu?.reason, null);
  t.regex(cpu?.path ?? "", /libggml-cpu/);
  const device = native.listDevices().find(({ name }) => name === "CPU");
  t.is(device?.kind, "cpu");
  t.true((device?.memoryTotalBytes ?? 0) > 0);
});

test("a backend that is not loaded says why", (t) => {
  for (const backend of native.listBackends()) {
    t.is(backend.loaded, backend.reason === null, backend.name);
    if (!backend.loaded) {
      t.regex(backend.reason ?? "", backend.path === null ? /not installed|holds no/ : /.{5}/, backend.name);
    }
  }
});

test("loading writes nothing to stdout or stderr", (t) => {
  const { code, stdout, stderr } = runBody("const model = await native.loadModel({ path }); await model.close();");
  t.deepEqual({ code, stdout, stderr }, { code: 0, stdout: "", stderr: "" });
});

test("llama.cpp names its version", (t) => {
  t.regex(native.llamaVersion, /^\d+\.\d+\.\d+/);
});

test("a log handler gets llama.cpp's lines, and none after it is taken back", async (t) => {
  const lines: string[] = [];
  native.setLogHandler((level, text) => lines.push(`${level}: ${text}`));
  await (await native.loadModel({ path: MODEL_PATH })).close();
  native.setLogHandler(null);
  t.true(lines.some((line) => line.startsWith("info: ") && line.includes("llama")));
  t.true(lines.every((line) => !line.includes("\n")));
  const count = lines.length;
  await (await native.loadModel({ path: MODEL_PATH })).close();
  t.is(lines.length, count);
});

test("errors of a failed load are in the error alone, not on stderr", (t) => {
  const { stdout, stderr } = runBody(`
    await native.loadModel({ path: process.execPath }).catch((error) => console.log(error.code));
  `);
  t.deepEqual({ stdout, stderr }, { stdout: "ERR_NOT_A_MODEL\n", stderr: "" });
});

/** `Cpus_allowed_list` of every thread. */
function allowedCores(): Set<string> {
  const lists = readdirSync("/proc/self/task").map((thread) => {
    const status = readFileSync(`/proc/self/task/${thread}/status`, "utf8");
    return /Cpus_allowed_list:\s*(\S+)/.exec(status)?.[1] ?? "";
  });
  return new Set(lists);
}

linuxTest(
  "pinning moves every thread to the cores, and a core that is not there changes nothing",
  "/proc",
  async (t) => {
    const before = [...allowedCores()];
    t.is(await outcomeOf(() => native.setCpuAffinity([0, 4000])), "ERR_INVALID_ARGUMENT");
    t.deepEqual([...allowedCores()], before);
    native.setCpuAffinity([0]);
    t.deepEqual([...allowedCores()], ["0"]);
    const model = await native.loadModel({ path: MODEL_PATH });
    const decoder = model.createDecoder({ onEvents: () => {} });
    t.deepEqual([...allowedCores()], ["0"], "threads made later too");
    await decoder.close();
    await model.close();
  },
);
