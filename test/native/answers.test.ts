/** The built-in model's recorded answers through the real decoder: text, counts and finish, exactly. */
import test from "ava";
import { answers, Bench, chatTokens, finished, openModel, textOf } from "./support.ts";

for (const slots of [1, 4]) {
  test(`all recorded answers come out exactly with ${slots} slot(s) decoding at once`, async (t) => {
    await using model = await openModel();
    await using bench = new Bench(model, { slots });
    const queue = [...answers];
    const worker = async (slot: number): Promise<void> => {
      for (let item = queue.shift(); item !== undefined; item = queue.shift()) {
        const prompt = await chatTokens(model, item.messages);
        const result = await bench.run({ slot, prompt, maxTokens: item.max_tokens });
        const statistics = finished(result);
        t.is(textOf(model, result.tokens), item.expected, item.id);
        t.is(statistics.finish, "stop", item.id);
        t.is(statistics.generated, item.expected_tokens, item.id);
        t.is(statistics.promptTokens, item.prompt_tokens, item.id);
        t.is(statistics.reused + statistics.promptRead, item.prompt_tokens, item.id);
        t.is(result.tokens.length, statistics.generated, item.id);
      }
    };
    await Promise.all(Array.from({ length: slots }, (_, slot) => worker(slot)));
    t.is(answers.length, 112);
  });
}

test("a small prefill chunk and a tight context change no answer", async (t) => {
  await using model = await openModel();
  await using bench = new Bench(model, { contextTokens: 300, prefillChunkTokens: 7 });
  const short = answers.filter((item) => item.prompt_tokens + item.max_tokens <= 300).slice(0, 40);
  for (const item of short) {
    const prompt = await chatTokens(model, item.messages);
    const result = await bench.run({ slot: 0, prompt, maxTokens: item.max_tokens });
    t.is(textOf(model, result.tokens), item.expected, item.id);
  }
  t.is(short.length, 40);
});

test("every KV type that the model allows answers, and generates the tokens that it counts", async (t) => {
  await using model = await openModel();
  for (const kvType of ["f32", "f16", "bf16", "q8_0", "q4_0"] as const) {
    await using bench = new Bench(model, { kvType });
    const prompt = await chatTokens(model, [{ role: "user", content: "Which country has the code PT?" }]);
    const result = await bench.run({ slot: 0, prompt, maxTokens: 45 });
    t.is(result.tokens.length, finished(result).generated, kvType);
    if (kvType === "f32" || kvType === "f16") {
      t.is(textOf(model, result.tokens), "PT is the code of Portugal.", kvType);
    }
  }
});

test("the special texts are the control tokens' own, which no message may bring into a prompt", async (t) => {
  await using model = await openModel();
  t.deepEqual([...model.info.specialTexts].toSorted(), ["<|endoftext|>", "<|im_end|>", "<|im_start|>"]);
});
