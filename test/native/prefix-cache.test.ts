/** Reuse of a slot's KV cache: when it happens, what it saves, and that it never changes an answer. */
import test from "ava";
import { answers, ask, Bench, chatTokens, endless, finished, openModel, promptOfLength, textOf } from "./support.ts";

test("the same prompt again reuses all but its last token and gives the same answer", async (t) => {
  await using model = await openModel();
  await using bench = new Bench(model);
  for (const item of answers.slice(0, 30)) {
    const prompt = await chatTokens(model, item.messages);
    const turn = { slot: 0, prompt, maxTokens: item.max_tokens, salt: item.id };
    const first = finished(await bench.run(turn));
    const again = await bench.run(turn);
    const second = finished(again);
    t.is(first.reused, 0, item.id);
    t.is(first.promptRead, prompt.length, item.id);
    t.is(second.reused, prompt.length - 1, item.id);
    t.is(second.promptRead, 1, item.id);
    t.deepEqual(again.events[0], {
      type: "resume",
      turn: again.events[0]?.turn ?? -1,
      slot: 0,
      reused: prompt.length - 1,
    });
    t.is(textOf(model, again.tokens), item.expected, item.id);
  }
});

test("the next turn of a conversation reuses the answer's tokens too", async (t) => {
  await using model = await openModel();
  await using bench = new Bench(model);
  const opening = [{ role: "user", content: "My ticket is SLOT-3-RVN-23858." }];
  const first = await bench.run({ slot: 0, prompt: await chatTokens(model, opening), maxTokens: 40 });
  const said = textOf(model, first.tokens);
  const prompt = await chatTokens(model, [
    ...opening,
    { role: "assistant", content: said },
    { role: "user", content: "What is my ticket?" },
  ]);
  const second = await bench.run({ slot: 0, prompt, maxTokens: 60 });
  const { promptTokens, generated } = finished(first);
  // All of the answer but its end token, which was sampled and never computed.
  t.is(finished(second).reused, promptTokens + generated - 1);
  t.is(textOf(model, second.tokens), "SLOT-3-RVN-23858");
});

test("another salt reuses nothing, even for the same prompt", async (t) => {
  await using model = await openModel();
  await using bench = new Bench(model);
  const prompt = await ask(model, "Which country has the code PT?");
  for (const salt of ["alice", "bob", "", "alice"]) {
    const result = await bench.run({ slot: 0, prompt, maxTokens: 45, salt });
    t.is(finished(result).reused, 0, salt);
    t.not(result.events[0]?.type, "resume", salt);
    t.is(textOf(model, result.tokens), "PT is the code of Portugal.", salt);
  }
});

test("slots do not share their caches", async (t) => {
  await using model = await openModel();
  await using bench = new Bench(model, { slots: 2 });
  const prompt = await ask(model, "Say hello.");
  await bench.run({ slot: 0, prompt, maxTokens: 20 });
  t.is(finished(await bench.run({ slot: 1, prompt, maxTokens: 20 })).reused, 0);
});

test("a turn that was cancelled in its prefill leaves exactly the tokens that it computed", async (t) => {
  await using model = await openModel();
  const prompt = await promptOfLength(model, 1500);
  let stopAt = -1;
  await using bench = new Bench(model, { prefillChunkTokens: 8 }, (event) => {
    if (event.type === "prefill" && event.position >= 64 && stopAt < 0) {
      stopAt = event.position;
      bench.decoder.stop(event.turn);
    }
  });
  const cancelled = finished(await bench.run({ slot: 0, prompt, maxTokens: 8 }));
  t.is(cancelled.finish, "cancel");
  t.true(cancelled.promptRead >= 64 && cancelled.promptRead < 1500, `${cancelled.promptRead} tokens were computed`);
  const resumed = await bench.run({ slot: 0, prompt, maxTokens: 8 });
  t.is(finished(resumed).reused, cancelled.promptRead);

  await using fresh = new Bench(model);
  t.deepEqual(resumed.tokens, (await fresh.run({ slot: 0, prompt, maxTokens: 8 })).tokens);
});

test("a shorter or a different prompt gets the common part and forgets the rest", async (t) => {
  await using model = await openModel();
  await using bench = new Bench(model);
  const prompt = await promptOfLength(model, 200);
  await bench.run({ slot: 0, prompt, maxTokens: 20, sampling: endless(model) });
  const changed = Int32Array.from(prompt);
  changed[120] = (changed[120] ?? 0) + 1;
  const result = await bench.run({ slot: 0, prompt: changed, maxTokens: 20, sampling: endless(model) });
  t.is(finished(result).reused, 120);
  await using fresh = new Bench(model);
  const expected = await fresh.run({ slot: 0, prompt: changed, maxTokens: 20, sampling: endless(model) });
  t.deepEqual(result.tokens, expected.tokens);
  t.is(finished(await bench.run({ slot: 0, prompt: changed.subarray(0, 50), maxTokens: 4 })).reused, 49);
});
