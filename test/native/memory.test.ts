/** Memory over many turns and many decoders: it must not grow. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import test from "ava";
import { z } from "zod";
import { runBody } from "./child.ts";
import { ask, Bench, openModel } from "./support.ts";

setFlagsFromString("--expose-gc");
const gc: () => void = runInNewContext("gc");

/** What allocators and V8 may still take after the warm-up. A leak of one slot's cache (2 MB) or of a sampler row (12 kB) a turn is far beyond it. */
const MAX_GROWTH_BYTES = 6 * 1024 * 1024;

function residentBytes(): number {
  gc();
  return process.memoryUsage.rss();
}

test("1,000 turns with sampling, reuse and cancels do not grow the process", async (t) => {
  await using model = await openModel();
  await using bench = new Bench(model, { slots: 2, contextTokens: 256 });
  const prompt = await ask(model, "Write a poem about the sea.");
  const turns = async (count: number): Promise<void> => {
    for (let i = 0; i < count; i++) {
      const sampling = { temperature: 1, seed: i, topK: 40, penaltyPresent: 0.1 };
      const { turn, result } = bench.start({ slot: i % 2, prompt, maxTokens: 20, sampling, salt: String(i % 3) });
      if (i % 5 === 0) {
        bench.decoder.stop(turn);
      }
      await result;
    }
    bench.log.length = 0;
  };
  await turns(500);
  const before = residentBytes();
  await turns(1000);
  const growth = residentBytes() - before;
  t.log(`resident before ${(before / 2 ** 20).toFixed(1)} MiB, growth ${(growth / 2 ** 20).toFixed(2)} MiB`);
  t.true(growth < MAX_GROWTH_BYTES, `grew by ${growth} bytes`);
});

test("opening and closing models and decoders does not grow the process", (t) => {
  const { code, stdout } = runBody(
    `
    const rounds = async (count) => {
      for (let i = 0; i < count; i++) {
        const model = await native.loadModel({ path });
        const done = Promise.withResolvers();
        const decoder = model.createDecoder({ slots: 2, onEvents: (events) => events.some((e) => e.type === "done") && done.resolve() });
        decoder.run({ turn: 1, slot: 1, prompt: [65, 66, 67], maxTokens: 3 });
        await done.promise;
        await decoder.close();
        await model.close();
      }
    };
    const resident = () => { gc(); return process.memoryUsage.rss(); };
    await rounds(20);
    const before = resident();
    await rounds(60);
    console.log(JSON.stringify({ before, growth: resident() - before }));
  `,
    // glibc raises its threshold for giving memory back once a model was freed; then the arenas' free space would count.
    { flags: ["--expose-gc"], env: { MALLOC_MMAP_THRESHOLD_: "65536" } },
  );
  t.is(code, 0);
  const { before, growth } = z.object({ before: z.number(), growth: z.number() }).parse(JSON.parse(stdout));
  t.log(`resident before ${(before / 2 ** 20).toFixed(1)} MiB, growth ${(growth / 2 ** 20).toFixed(2)} MiB`);
  t.true(growth < MAX_GROWTH_BYTES, `grew by ${growth} bytes`);
});
