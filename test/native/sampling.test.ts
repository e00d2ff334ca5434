/** Each sampling parameter does what it says; the draw repeats with its seed. */
import type { Sampling } from "@lockgate/native";
import test from "ava";
import { ask, Bench, finished, openModel, textOf } from "./support.ts";

test("the same seed draws the same tokens, another seed draws others", async (t) => {
  await using model = await openModel();
  await using bench = new Bench(model, { slots: 2 });
  const prompt = await ask(model, "Write a poem about the sea.");
  const draw = async (slot: number, seed: number): Promise<string> =>
    textOf(model, (await bench.run({ slot, prompt, maxTokens: 40, sampling: { temperature: 2, seed } })).tokens);
  const first = await draw(0, 7);
  t.is(await draw(0, 7), first);
  t.is(await draw(1, 7), first, "and in another slot");
  t.not(await draw(0, 8), first);
  t.is(await draw(0, 2 ** 32 - 1), await draw(0, 2 ** 32 - 1), "the largest seed is no random one");
});

test("without a seed two draws differ", async (t) => {
  await using model = await openModel();
  await using bench = new Bench(model);
  const prompt = await ask(model, "Write a poem about the sea.");
  const draws = new Set<string>();
  for (let i = 0; i < 4; i++) {
    // So hot that every token is about as likely: two draws of 40 are then alike in no lifetime.
    const result = await bench.run({ slot: 0, prompt, maxTokens: 40, sampling: { temperature: 100 } });
    draws.add(textOf(model, result.tokens));
  }
  t.true(draws.size > 1);
});

test("a strong negative bias bans a token, a strong positive one forces it", async (t) => {
  await using model = await openModel();
  await using bench = new Bench(model);
  const prompt = await ask(model, "Which country has the code PT?");
  const free = await bench.run({ slot: 0, prompt, maxTokens: 20 });
  const banned = free.tokens[0] ?? -1;
  for (const temperature of [0, 1]) {
    const sampling = { temperature, seed: 1, logitBias: [[banned, -1000]] as const };
    const result = await bench.run({ slot: 0, prompt, maxTokens: 20, sampling });
    t.false(result.tokens.includes(banned), `at temperature ${temperature}`);
  }
  const forced = await bench.run({ slot: 0, prompt, maxTokens: 5, sampling: { logitBias: [[banned, 1000]] } });
  t.deepEqual(forced.tokens, [banned, banned, banned, banned, banned]);
});

test("each penalty keeps a forced token from coming again", async (t) => {
  await using model = await openModel();
  await using bench = new Bench(model);
  const prompt = await ask(model, "Say hello.");
  // Bias makes one token win by far less than the penalty takes from it.
  const repeats = async (sampling: Sampling): Promise<number> => {
    const result = await bench.run({
      slot: 0,
      prompt,
      maxTokens: 10,
      sampling: { ...sampling, logitBias: [[65, 60]] },
    });
    return result.tokens.filter((token) => token === 65).length;
  };
  t.is(await repeats({}), 10);
  t.true((await repeats({ penaltyPresent: 100 })) < 3);
  t.true((await repeats({ penaltyFreq: 100 })) < 3);
  t.true((await repeats({ penaltyRepeat: 100 })) < 3);
  t.is(await repeats({ penaltyPresent: 100, penaltyLastN: 0 }), 10, "a window of 0 turns penalties off");
  t.true((await repeats({ penaltyPresent: 100, penaltyLastN: -1 })) < 3, "a window of -1 is the whole context");
});

test("penalties count the turn's own tokens, not its prompt", async (t) => {
  await using model = await openModel();
  await using bench = new Bench(model);
  const prompt = Int32Array.from([...(await ask(model, "Say hello.")), 65, 65]);
  const sampling: Sampling = { penaltyPresent: 100, logitBias: [[65, 60]] };
  const { tokens } = await bench.run({ slot: 0, prompt, maxTokens: 3, sampling });
  t.is(tokens[0], 65, "the prompt's own 65 costs nothing");
  t.false(tokens.slice(1).includes(65));
});

test("topK 1, a tiny topP and minP 1 each make a hot draw greedy", async (t) => {
  await using model = await openModel();
  await using bench = new Bench(model);
  const prompt = await ask(model, "Write a poem about the sea.");
  const run = async (sampling: Sampling): Promise<readonly number[]> =>
    (await bench.run({ slot: 0, prompt, maxTokens: 30, sampling })).tokens;
  const greedy = await run({});
  t.notDeepEqual(await run({ temperature: 3, seed: 5 }), greedy);
  t.deepEqual(await run({ temperature: 3, seed: 5, topK: 1 }), greedy);
  t.deepEqual(await run({ temperature: 3, seed: 5, topP: 1e-6 }), greedy);
  t.deepEqual(await run({ temperature: 3, seed: 5, minP: 1 }), greedy);
});

test("temperature 0 is greedy whatever the filters say", async (t) => {
  await using model = await openModel();
  await using bench = new Bench(model);
  const prompt = await ask(model, "Which country has the code PT?");
  const result = await bench.run({
    slot: 0,
    prompt,
    maxTokens: 45,
    sampling: { temperature: 0, topP: 0.1, topK: 3, minP: 0.5, seed: 3 },
  });
  t.is(textOf(model, result.tokens), "PT is the code of Portugal.");
  t.is(finished(result).finish, "stop");
});
