/** Closing, dropping or leaving a model and a decoder in any state: turns end, the process does not crash. */
import test from "ava";
import { runBody, runNode } from "./child.ts";
import { STATES } from "./closing-states.ts";
import { Bench, endless, finished, openModel, promptOfLength } from "./support.ts";

test("close ends every running turn with a cancelled done, then resolves", async (t) => {
  await using model = await openModel();
  const bench = new Bench(model, { slots: 3, prefillChunkTokens: 8 });
  const long = await promptOfLength(model, 1500);
  const turns = [0, 1, 2].map((slot) => bench.run({ slot, prompt: long, maxTokens: 500, sampling: endless(model) }));
  await bench.decoder.close();
  t.is(bench.log.filter(({ type }) => type === "done").length, 3, "all done events came before close resolved");
  for (const result of await Promise.all(turns)) {
    t.is(finished(result).finish, "cancel");
  }
  await bench.decoder.close();
});

test("a model closed before its decoder lets the decoder finish its turns", async (t) => {
  const model = await openModel();
  const prompt = await promptOfLength(model, 20);
  const bench = new Bench(model);
  await model.close();
  await model.close();
  t.is(finished(await bench.run({ slot: 0, prompt, maxTokens: 30, sampling: endless(model) })).generated, 30);
  await bench.decoder.close();
});

const child = new URL("closing-child.ts", import.meta.url).pathname;
const clean = { code: 0, signal: null, stdout: "reached\n", stderr: "" };

for (const state of Object.keys(STATES)) {
  test(`a process exits cleanly with ${state}`, (t) => {
    t.deepEqual(runNode([child, "exit", state]), clean);
  });

  test(`a process that only stops caring ends by itself with ${state}`, (t) => {
    t.deepEqual(runNode([child, "end", state]), clean);
  });

  test(`a worker is terminated cleanly with ${state}`, (t) => {
    t.deepEqual(runNode([child, "terminate", state]), clean);
  });
}

test("decoders and models that were dropped are freed without a close", (t) => {
  const { code, signal, stdout, stderr } = runBody(
    `
    const threads = async () => (await import("node:fs")).readdirSync("/proc/self/task").length;
    const use = async () => {
      const model = await native.loadModel({ path });
      const done = Promise.withResolvers();
      const decoder = model.createDecoder({ onEvents: (events) => events.some((e) => e.type === "done") && done.resolve() });
      decoder.run({ turn: 1, slot: 0, prompt: [65, 66], maxTokens: 5 });
      await done.promise;
    };
    await use();
    const before = (await threads()) - 1;
    for (let i = 0; i < 20; i++) {
      await use();
    }
    for (let round = 0; round < 200 && (await threads()) > before; round++) {
      gc();
      await new Promise((resolve) => setImmediate(resolve));
    }
    console.log((await threads()) <= before ? "all threads ended" : "threads are left");
  `,
    { flags: ["--expose-gc"] },
  );
  t.deepEqual({ code, signal, stdout, stderr }, { code: 0, signal: null, stdout: "all threads ended\n", stderr: "" });
});

test("an exception in onEvents is an uncaught exception, and the decoder goes on", (t) => {
  const { code, stdout } = runBody(`
    process.on("uncaughtException", (error) => console.log("uncaught:", error.message));
    const model = await native.loadModel({ path });
    let seen = 0;
    const decoder = model.createDecoder({ onEvents: (events) => { seen += events.length; throw new Error("mine " + (seen > 0)); } });
    decoder.run({ turn: 1, slot: 0, prompt: [65, 66], maxTokens: 5, sampling: endless(model) });
    await decoder.close();
    await model.close();
    console.log("end");
  `);
  t.is(code, 0);
  t.regex(stdout, /^(uncaught: mine true\n)+end\n$/);
});
