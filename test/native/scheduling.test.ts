/** Who gets the next step: fairness between slots, stopping at every stage, limits of length. By event order, never by time. */
import type { DecoderEvent } from "@lockgate/native";
import test from "ava";
import fc from "fast-check";
import { ask, Bench, endless, finished, openModel, orderFault, promptOfLength, type TurnResult } from "./support.ts";

test("a long prefill does not stop the tokens of another slot", async (t) => {
  await using model = await openModel();
  const long = await promptOfLength(model, 1500);
  const short = await ask(model, "Say hello.");
  let prefilling: Promise<TurnResult> | undefined;
  await using bench = new Bench(model, { slots: 2, prefillChunkTokens: 64 }, (event) => {
    if (event.type === "token" && event.slot === 0) {
      prefilling ??= bench.run({ slot: 1, prompt: long, maxTokens: 1 });
    }
  });
  const decoding = bench.start({ slot: 0, prompt: short, maxTokens: 1800, sampling: endless(model) });
  await decoding.result;
  await prefilling;

  const chunks = bench.log.flatMap((event, index) => (event.type === "prefill" && event.slot === 1 ? [index] : []));
  t.is(chunks.length, Math.ceil(1500 / 64));
  for (const [n, index] of chunks.entries()) {
    const previous = chunks[n - 1];
    if (previous !== undefined) {
      const between = bench.log.slice(previous, index);
      t.true(
        between.some((event) => event.type === "token" && event.slot === 0),
        `no token of slot 0 between chunks ${n - 1} and ${n}`,
      );
    }
  }
});

test("prompts that prefill at the same time take turns", async (t) => {
  await using model = await openModel();
  const prompt = await promptOfLength(model, 1000);
  await using bench = new Bench(model, { slots: 3, prefillChunkTokens: 50 });
  await Promise.all([0, 1, 2].map((slot) => bench.run({ slot, prompt, maxTokens: 1 })));
  const order = bench.log.flatMap((event) => (event.type === "prefill" ? [event.slot] : []));
  t.is(order.length, 60);
  // The first few may run before all three have arrived.
  const settled = order.slice(6, -6).map((_slot, index, all) => new Set(all.slice(index, index + 3)).size);
  t.true(
    settled.slice(0, -2).every((distinct) => distinct === 3),
    order.join(""),
  );
});

test("prefill events count up to the whole prompt, by at most a chunk each", async (t) => {
  await using model = await openModel();
  await using bench = new Bench(model, { prefillChunkTokens: 100 });
  const result = await bench.run({ slot: 0, prompt: await promptOfLength(model, 950), maxTokens: 1 });
  const positions = result.events.flatMap((event) => (event.type === "prefill" ? [event.position] : []));
  t.deepEqual(positions, [100, 200, 300, 400, 500, 600, 700, 800, 900, 950]);
  t.true(
    result.events.every((event) => event.type !== "prefill" || (event.total === 950 && event.tokensPerSecond > 0)),
  );
});

test("a stop right after the start ends the turn without a token", async (t) => {
  await using model = await openModel();
  await using bench = new Bench(model, { prefillChunkTokens: 8 });
  const { turn, result } = bench.start({ slot: 0, prompt: await promptOfLength(model, 1500), maxTokens: 10 });
  bench.decoder.stop(turn);
  const statistics = finished(await result);
  t.is(statistics.finish, "cancel");
  t.is(statistics.generated, 0);
  t.is(statistics.decodeMs, 0);
  t.true(statistics.promptRead < 1500);
});

test("a stop in the decode ends the turn after the tokens that were sent", async (t) => {
  await using model = await openModel();
  await using bench = new Bench(model, {}, (event) => {
    if (event.type === "token") {
      bench.decoder.stop(event.turn);
    }
  });
  const prompt = await ask(model, "Say hello.");
  const result = await bench.run({ slot: 0, prompt, maxTokens: 1900, sampling: endless(model) });
  t.is(finished(result).finish, "cancel");
  t.is(finished(result).generated, result.tokens.length);
  t.true(result.tokens.length < 1900);
});

test("a stop for a turn that has ended or never was does nothing to the turn that runs", async (t) => {
  await using model = await openModel();
  await using bench = new Bench(model);
  const prompt = await ask(model, "Which country has the code PT?");
  const first = bench.start({ slot: 0, prompt, maxTokens: 45 });
  await first.result;
  const second = bench.start({ slot: 0, prompt, maxTokens: 45 });
  bench.decoder.stop(first.turn);
  bench.decoder.stop(999_999);
  t.is(finished(await second.result).finish, "stop");
});

test("maxTokens and a full slot both end a turn with length, at the exact count", async (t) => {
  await using model = await openModel();
  await using bench = new Bench(model, { contextTokens: 100 });
  const sampling = endless(model);
  const limited = finished(
    await bench.run({ slot: 0, prompt: await promptOfLength(model, 20), maxTokens: 5, sampling }),
  );
  t.deepEqual([limited.finish, limited.generated], ["length", 5]);
  const full = finished(
    await bench.run({ slot: 0, prompt: await promptOfLength(model, 60), maxTokens: 5000, sampling }),
  );
  t.deepEqual([full.finish, full.generated], ["length", 40]);
  const last = finished(
    await bench.run({ slot: 0, prompt: await promptOfLength(model, 99), maxTokens: 5000, sampling }),
  );
  t.deepEqual([last.finish, last.generated], ["length", 1]);
});

test("a slot is free when its done is delivered, so the next turn may start inside the callback", async (t) => {
  await using model = await openModel();
  const prompt = await ask(model, "Say hello.");
  const { promise, resolve } = Promise.withResolvers<number>();
  let turns = 0;
  const decoder = model.createDecoder({
    onEvents: (events) => {
      for (const event of events) {
        if (event.type === "done" && ++turns < 5) {
          decoder.run({ turn: turns, slot: 0, prompt, maxTokens: 3 });
        } else if (event.type === "done") {
          resolve(turns);
        }
      }
    },
  });
  decoder.run({ turn: 0, slot: 0, prompt, maxTokens: 3 });
  t.is(await promise, 5);
  await decoder.close();
});

test("any mix of turns and stops keeps each turn's events in order, with one end and true counts", async (t) => {
  await using model = await openModel();
  const long = await promptOfLength(model, 400);
  const turnArbitrary = fc.record({
    promptTokens: fc.integer({ min: 1, max: 400 }),
    maxTokens: fc.integer({ min: 1, max: 60 }),
    salt: fc.constantFrom("", "a", "b"),
    temperature: fc.constantFrom(0, 1),
    stopAfterEvents: fc.option(fc.integer({ min: 0, max: 12 }), { nil: undefined }),
  });
  const property = fc.asyncProperty(
    fc.integer({ min: 1, max: 5 }),
    fc.integer({ min: 1, max: 128 }),
    fc.array(turnArbitrary, { minLength: 1, maxLength: 24 }),
    async (slots, prefillChunkTokens, turns) => {
      const stopAfter = new Map<number, number>();
      const seen = new Map<number, number>();
      const maybeStop = (event: DecoderEvent): void => {
        const count = (seen.get(event.turn) ?? 0) + 1;
        seen.set(event.turn, count);
        if (count === stopAfter.get(event.turn)) {
          bench.decoder.stop(event.turn);
        }
      };
      await using bench = new Bench(model, { slots, prefillChunkTokens, contextTokens: 512 }, maybeStop);
      const queue = [...turns];
      const worker = async (slot: number): Promise<void> => {
        for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
          const { promptTokens, maxTokens, salt, temperature, stopAfterEvents } = next;
          const prompt = long.subarray(0, promptTokens);
          const { turn, result } = bench.start({ slot, prompt, maxTokens, salt, sampling: { temperature, seed: 1 } });
          if (stopAfterEvents === 0) {
            bench.decoder.stop(turn);
          } else if (stopAfterEvents !== undefined) {
            stopAfter.set(turn, stopAfterEvents);
          }
          const ended = await result;
          const { events, tokens } = ended;
          const statistics = finished(ended);
          const whole = statistics.reused + statistics.promptRead;
          const faults = [
            orderFault(events),
            statistics.generated === tokens.length ? null : "generated differs from the tokens sent",
            statistics.promptTokens === promptTokens ? null : "promptTokens differs from the prompt",
            whole <= promptTokens ? null : "more prompt tokens than the prompt has",
            statistics.finish === "cancel" || whole === promptTokens ? null : "a natural end without the whole prompt",
            tokens.length <= maxTokens ? null : "more tokens than maxTokens",
          ].filter((fault) => fault !== null);
          if (faults.length > 0) {
            throw new Error(faults.join("; "));
          }
        }
      };
      await Promise.all(Array.from({ length: slots }, (_, slot) => worker(slot)));
    },
  );
  await t.notThrowsAsync(fc.assert(property, { numRuns: 30 }));
});
