/** Field reports about answers and their accounting: a real agent behind the real edge, and the ledger that its usage records reach. */
import test, { type ExecutionContext } from "ava";
import { createParser } from "eventsource-parser";
import { z } from "zod";
import { type ProvisionedKey, provisionKey } from "../helpers/admin-client.ts";
import { type CuttingProxy, startCuttingProxy } from "../helpers/cutting-proxy.ts";
import { type EdgeWithAgent, startEdgeWithAgent } from "../helpers/edge-with-agent.ts";
import { expectedAnswer, expectedAnswers } from "../helpers/expected-answers.ts";

const CALLERS = 64;
/** Turns at once while streams are cut: as many as the agent has slots. */
const SLOTS = 4;
/** Some hundred turns for each test; a loaded machine gets more. */
const LIMIT_MS = 300_000;
/** Bodies differ by a few bytes in length: times are written into them. */
const LENGTH_SLACK_BYTES = 32;

/** After how many bytes the next body from the agent is cut; 0 cuts none. */
let nextCut = (): number => 0;
let proxy: CuttingProxy | undefined;
let path: EdgeWithAgent;
test.before(async () => {
  path = await startEdgeWithAgent({
    words: ["--replicas", "1", "--slots", String(SLOTS)],
    through: async (url) => {
      proxy = await startCuttingProxy(url, () => nextCut());
      return proxy.url;
    },
  });
});
test.after.always(async () => {
  await path?.stop();
  proxy?.stop();
});

const usageSchema = z.object({ prompt_tokens: z.number(), completion_tokens: z.number() });
type Usage = z.infer<typeof usageSchema>;

const chunkSchema = z.object({
  id: z.string(),
  choices: z.array(z.object({ delta: z.object({ content: z.string().optional() }) })),
  usage: usageSchema.nullish(),
});
const plainSchema = z.object({
  id: z.string(),
  choices: z.tuple([z.object({ message: z.object({ content: z.string() }) })]),
  usage: usageSchema,
});

/** A stream's chunks; the last event must be [DONE]. */
const chunksOf = (t: ExecutionContext, text: string): z.infer<typeof chunkSchema>[] => {
  const events: string[] = [];
  createParser({ onEvent: ({ data }) => void events.push(data) }).feed(text);
  t.is(events.pop(), "[DONE]");
  return events.map((data) => chunkSchema.parse(JSON.parse(data)));
};

const rowsOf = async ({ id }: ProvisionedKey) => {
  await path.settled(id);
  const { results } = await path.edge.ledger
    .prepare("SELECT request_id, prompt_tokens, completion_tokens FROM turns WHERE key_id = ?")
    .bind(id)
    .all<Usage & { request_id: string }>();
  return results;
};

test.serial(
  `field report 10: ${CALLERS} callers at once, each with its own key: answer, usage, request id and ledger row are the caller's own`,
  async (t) => {
    t.timeout(LIMIT_MS);
    const callers = await Promise.all(
      expectedAnswers
        .slice(0, CALLERS)
        .map(async (asked) => ({ asked, key: await provisionKey(path.admin, { name: asked.id }) })),
    );
    t.is(callers.length, CALLERS);
    const ids = await Promise.all(
      callers.map(async ({ asked: { messages, max_tokens, expected, ...asked }, key }, index) => {
        const stream = index % 2 === 0;
        const usageAsked = stream ? { stream_options: { include_usage: true } } : {};
        const body = { model: "default", messages, max_tokens, stream, ...usageAsked };
        const response = await path.chat(key.text, body);
        t.is(response.status, 200);
        const text = await response.text();
        const chunks = stream ? chunksOf(t, text) : [];
        const plain = stream ? undefined : plainSchema.parse(JSON.parse(text));
        t.is(
          plain?.choices[0].message.content ?? chunks.map(({ choices }) => choices[0]?.delta.content ?? "").join(""),
          expected,
        );
        t.is(new Set(chunks.map(({ id }) => id)).size, stream ? 1 : 0);
        t.like(plain?.usage ?? chunks.at(-1)?.usage, {
          prompt_tokens: asked.prompt_tokens,
          completion_tokens: asked.expected_tokens,
        });
        return { requestId: response.headers.get("x-request-id"), id: plain?.id ?? chunks[0]?.id };
      }),
    );
    t.is(new Set(ids.map(({ requestId }) => requestId)).size, CALLERS);
    t.is(new Set(ids.map(({ id }) => id)).size, CALLERS);
    for (const [index, { asked, key }] of callers.entries()) {
      t.deepEqual(await rowsOf(key), [
        {
          request_id: ids[index]?.requestId,
          prompt_tokens: asked.prompt_tokens,
          completion_tokens: asked.expected_tokens,
        },
      ]);
    }
  },
);

test.serial(
  "field report 11: a stream that is cut at any byte between agent and edge: the same usage for client and ledger",
  async (t) => {
    t.timeout(LIMIT_MS);
    const key = await provisionKey(path.admin);
    const { messages } = expectedAnswer("fact-001");
    const options = { stream: true, stream_options: { include_usage: true } };
    const ask = async (): Promise<Usage> => {
      const response = await path.chat(key.text, { model: "default", messages, max_tokens: 1, ...options });
      const { prompt_tokens, completion_tokens } = usageSchema.parse(chunksOf(t, await response.text()).at(-1)?.usage);
      return { prompt_tokens, completion_tokens };
    };
    const usage = await ask();
    t.is(usage.completion_tokens, 1);
    const bytes = proxy?.bodyBytes().at(-1) ?? 0;
    const cuts = bytes + LENGTH_SLACK_BYTES;
    let cut = 0;
    nextCut = () => {
      cut += 1;
      return cut;
    };
    const wrong: Usage[] = [];
    const work = async (): Promise<void> => {
      while (cut < cuts) {
        const got = await ask();
        if (got.prompt_tokens !== usage.prompt_tokens || got.completion_tokens !== usage.completion_tokens)
          wrong.push(got);
      }
    };
    await Promise.all(Array.from({ length: SLOTS }, work));
    nextCut = () => 0;
    t.deepEqual(wrong, []);
    const rows = await rowsOf(key);
    t.is(rows.length, cut + 1);
    t.deepEqual(
      rows.filter(
        (row) => row.prompt_tokens !== usage.prompt_tokens || row.completion_tokens !== usage.completion_tokens,
      ),
      [],
    );
    t.log(`${cut} cuts in a body of ${bytes} bytes`);
  },
);

test.serial(
  "field report 17: a stream has a usage chunk if the client asked for one, also for a key whose tokens are counted",
  async (t) => {
    const limits = { tokens_per_minute: 1_000_000, tokens_per_month: 1_000_000 };
    const { messages, max_tokens, expected } = expectedAnswer("fact-001");
    for (const key of [await provisionKey(path.admin), await provisionKey(path.admin, { limits })]) {
      for (const [stream_options, wanted] of [
        [undefined, 0],
        [null, 0],
        [{}, 0],
        [{ include_usage: false }, 0],
        [{ include_usage: true }, 1],
      ] as const) {
        const response = await path.chat(key.text, {
          model: "default",
          messages,
          max_tokens,
          stream: true,
          stream_options,
        });
        t.is(response.status, 200);
        const chunks = chunksOf(t, await response.text());
        const title = JSON.stringify(stream_options ?? null);
        t.is(chunks.filter(({ choices }) => choices.length === 0).length, wanted, title);
        t.is(chunks.filter(({ usage }) => usage != null).length, wanted, title);
        t.is(chunks.map(({ choices }) => choices[0]?.delta.content ?? "").join(""), expected, title);
      }
      t.is((await rowsOf(key)).length, 5);
    }
  },
);
