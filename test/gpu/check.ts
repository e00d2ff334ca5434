/**
 * `npm run check:gpu`: the one script that checks on a GPU machine what no other test can. Which backends load and why not, the built-in
 * model's answers on each GPU with 1 and 4 slots, tokens/s, and one answer through agent and edge on the GPU.
 *
 * Ends with 0 when all of it held, 1 when something did not, and 69 where there is no GPU to check on: then nothing was checked.
 */
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { type DecoderEvent, listBackends, listDevices, loadModel, type Model } from "@lockgate/native";
import { expectedAnswer, expectedAnswers } from "../helpers/expected-answers.ts";
import { startScript } from "../helpers/processes.ts";

const modelPath = fileURLToPath(new URL("../../gpu-agent/models/tiny-atlas-3m-q8_0.gguf", import.meta.url));
const starter = fileURLToPath(new URL("../../edge/local/start.ts", import.meta.url));
/** The smallest share of exact answers: the card measured its answers on CPU back ends, and a GPU rounds otherwise. */
const LEAST_EXACT_SHARE = 0.95;

const say = (text: string): void => void process.stdout.write(`${text}\n`);

const render = (messages: readonly { role: string; content: string }[]): string =>
  `${messages.map(({ role, content }) => `<|im_start|>${role}\n${content}<|im_end|>\n`).join("")}<|im_start|>assistant\n`;

/** Exact answers of all expected ones, and tokens/s over all slots, on one device. */
const answerAll = async (model: Model, slots: number): Promise<{ exact: number; tokensPerSecond: number }> => {
  const { offsets, bytes } = model.pieces();
  const waiting = new Map<number, { tokens: number[]; done: () => void }>();
  const decoder = model.createDecoder({
    slots,
    onEvents: (events: readonly DecoderEvent[]) => {
      for (const event of events) {
        const turn = waiting.get(event.turn);
        if (event.type === "token") turn?.tokens.push(event.token);
        if (event.type === "done" || event.type === "error") turn?.done();
      }
    },
  });
  const queue = [...expectedAnswers.entries()];
  let exact = 0;
  let generated = 0;
  const startedMs = performance.now();
  const work = async (slot: number): Promise<void> => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      const [turn, { messages, max_tokens, expected }] = next;
      const prompt = await model.tokenize(render(messages), { parseSpecial: true });
      const tokens: number[] = [];
      const ended = Promise.withResolvers<void>();
      waiting.set(turn, { tokens, done: ended.resolve });
      decoder.run({ turn, slot, prompt, maxTokens: max_tokens });
      await ended.promise;
      generated += tokens.length;
      const text = Buffer.concat(tokens.map((id) => bytes.subarray(offsets[id], offsets[id + 1]))).toString();
      if (text === expected) exact++;
    }
  };
  await Promise.all(Array.from({ length: slots }, (_, slot) => work(slot)));
  const seconds = (performance.now() - startedMs) / 1000;
  await decoder.close();
  return { exact, tokensPerSecond: Math.round(generated / seconds) };
};

/** One exact answer through edge and agent, which find the GPU by themselves. */
const askThroughEdge = async (): Promise<boolean> => {
  const started = startScript(starter, ["--json", "--port", "0", "--agent-port", "0"]);
  const ready = JSON.parse(await started.firstLine) as { edge: string; key: string };
  const { messages, expected } = expectedAnswer("fact-001");
  const response = await fetch(`${ready.edge}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${ready.key}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "default", messages }),
  });
  const answer = (await response.json()) as { choices: [{ message: { content: string } }] };
  started.child.kill("SIGTERM");
  await once(started.child, "exit");
  return answer.choices[0].message.content === expected;
};

const check = async (): Promise<number> => {
  for (const { name, loaded, reason } of listBackends())
    say(`backend ${name}: ${loaded ? "loaded" : `not loaded: ${reason}`}`);
  const gpus = listDevices().filter(({ kind }) => kind === "gpu");
  if (gpus.length === 0) {
    say("no GPU: nothing was checked (on a machine with one, `npm run gpu:cuda` adds the CUDA libraries)");
    return 69;
  }
  let held = true;
  for (const { name, description, memoryFreeBytes } of gpus) {
    say(`device ${name}: ${description}, ${Math.round(memoryFreeBytes / 2 ** 30)} GiB free`);
    const model = await loadModel({ path: modelPath, devices: [name] });
    for (const slots of [1, 4]) {
      const { exact, tokensPerSecond } = await answerAll(model, slots);
      held &&= exact >= LEAST_EXACT_SHARE * expectedAnswers.length;
      say(`  ${slots} slots: ${exact} of ${expectedAnswers.length} answers exact, ${tokensPerSecond} tokens/s`);
    }
    await model.close();
  }
  const answered = await askThroughEdge();
  say(`through agent and edge: ${answered ? "exact" : "WRONG"}`);
  return held && answered ? 0 : 1;
};

process.exit(await check());
