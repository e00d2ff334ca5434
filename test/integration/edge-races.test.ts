/** Many requests at once against one limit, through one worker and through two that share the key's object. */
import test from "ava";
import { type ProvisionedKey, provisionKey } from "../helpers/admin-client.ts";
import { onlyAgent, startEdgeUnderTest } from "../helpers/edge-worker.ts";
import { exchange } from "../helpers/edge-worker-client.ts";

const AT_ONCE = 100;
const LIMIT = 10;

const edge = await startEdgeUnderTest(1, {}, { workers: 2 });
const agent = onlyAgent(edge);
test.after.always(() => edge.stop());

/** Sends all at once to `urls` in turn; the agent holds its answers back until all refusals are in. */
const race = async (urls: readonly string[], key: ProvisionedKey, body: object) => {
  const mayAnswer = Promise.withResolvers<void>();
  agent.script = async (reply) => {
    await mayAnswer.promise;
    reply.head(200, { "content-type": "application/json" });
    void reply.write("{}").then(() => reply.end());
  };
  const before = agent.requests.length;
  let refusals = 0;
  const answers = await Promise.all(
    Array.from({ length: AT_ONCE }, async (_, index) => {
      const url = urls[index % urls.length] ?? edge.url;
      const answer = await exchange({ url, apiKey: key.text }, { body: JSON.stringify(body) });
      if (answer.status === 429) refusals += 1;
      if (refusals >= AT_ONCE - LIMIT) mayAnswer.resolve();
      return answer;
    }),
  );
  return { answers, reached: agent.requests.length - before };
};

// 4 bytes a token: the estimate is what the body allows for the answer and a little for itself.
const MAX_TOKENS = 1000;
const cases = [
  ["a concurrency of ten", { concurrency: LIMIT }],
  ["ten requests a minute", { requests_per_minute: LIMIT }],
  ["tokens a minute for ten", { tokens_per_minute: LIMIT * (MAX_TOKENS + 50) }],
  ["a month's tokens for ten", { tokens_per_month: LIMIT * (MAX_TOKENS + 50) }],
] as const;

for (const [what, limits] of cases) {
  for (const workers of [1, 2]) {
    test.serial(
      `field report 15: 100 at once against ${what}, through ${workers} of the workers: exactly ten`,
      async (t) => {
        const key = await provisionKey(edge.admin, { limits });
        const { answers, reached } = await race(edge.urls.slice(0, workers), key, {
          model: "m",
          max_tokens: MAX_TOKENS,
        });
        t.is(answers.filter(({ status }) => status === 200).length, LIMIT);
        t.is(reached, LIMIT);
        for (const { status, headers, text } of answers) {
          if (status === 200) continue;
          t.is(status, 429);
          t.true(Number(headers["retry-after"]) >= 1);
          t.like(JSON.parse(text), { error: { code: "rate_limit_exceeded" } });
        }
      },
    );
  }
}
