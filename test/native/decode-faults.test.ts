/**
 * llama.cpp refusing a batch or an allocation. Faults are injected by a small library that stands before libllama
 * (LD_PRELOAD), so the addon that is tested is the one that ships.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "ava";
import { linuxTest } from "../helpers/linux-test.ts";
import { runBody } from "./child.ts";

const directory = mkdtempSync(join(tmpdir(), "lockgate-faults-"));
const library = join(directory, "faults.so");
const source = new URL("faults.cpp", import.meta.url).pathname;

test.before(() => {
  execFileSync("g++", ["-shared", "-fPIC", "-o", library, source, "-ldl"], { stdio: "pipe" });
});
test.after.always(() => rmSync(directory, { recursive: true, force: true }));

linuxTest(
  "a refused batch ends its turns with an error event, and the decoder goes on, for the 1st to 6th batch",
  "LD_PRELOAD",
  (t) => {
    for (let failAt = 1; failAt <= 6; failAt++) {
      const { code, stdout, stderr } = runBody(
        `
      const model = await native.loadModel({ path });
      const prompt = Int32Array.from({ length: 1200 }, () => 65);
      const waiting = new Map();
      const decoder = model.createDecoder({ slots: 2, prefillChunkTokens: 500, onEvents: (events) => {
        for (const event of events) {
          if (event.type === "done" || event.type === "error") waiting.get(event.turn)(event);
        }
      } });
      const run = (turn, slot, length, maxTokens) => new Promise((resolve) => {
        waiting.set(turn, resolve);
        decoder.run({ turn, slot, prompt: prompt.subarray(0, length), maxTokens, sampling: endless(model) });
      });
      const first = await run(1, 0, 1200, 10);
      const after = await run(2, 0, 1200, 10);
      const other = await run(3, 1, 5, 10);
      console.log(JSON.stringify([first, after, other].map((e) => e.type === "error" ? [e.code, e.message] : [e.statistics.finish, e.statistics.reused])));
      await decoder.close();
      await model.close();
    `,
        { env: { LD_PRELOAD: library, LOCKGATE_FAIL_DECODE_AT: String(failAt) } },
      );
      t.deepEqual({ code, stderr }, { code: 0, stderr: "" }, `batch ${failAt}`);
      const expected = [
        ["ERR_DECODE", "llama_decode returned -3: no reason given"],
        ["length", 0], // nothing of the failed turn is reused
        ["length", 0],
      ];
      t.deepEqual(JSON.parse(stdout), expected, `batch ${failAt}`);
    }
  },
);

linuxTest("a KV cache that does not fit is ERR_OUT_OF_MEMORY, and the model still works", "prlimit", (t) => {
  const { code, stdout } = runBody(`
    import { execFileSync } from "node:child_process";
    import { readFileSync } from "node:fs";
    const model = await native.loadModel({ path });
    const kiB = Number(/VmSize:\\s+(\\d+)/.exec(readFileSync("/proc/self/status", "utf8"))[1]);
    execFileSync("prlimit", ["--pid", String(process.pid), "--as=" + (kiB + 200 * 1024) * 1024]);
    try {
      model.createDecoder({ slots: 64, onEvents() {} });
      console.log("allowed");
    } catch (error) {
      console.log(error.code);
    }
    const decoder = model.createDecoder({ contextTokens: 256, onEvents() {} });
    await decoder.close();
    console.log("end");
  `);
  t.deepEqual({ code, stdout }, { code: 0, stdout: "ERR_OUT_OF_MEMORY\nend\n" });
});
