import { randomBytes } from "node:crypto";
import test from "ava";
import {
  generatedTokens,
  type Look,
  screenOf,
  statusJson,
  statusLines,
  statusSchema,
  tokenRates,
} from "../../gpu-agent/src/cli/status-view.ts";

const replica = (index: number, more: object = {}) => ({
  index,
  state: "ready",
  reason: "",
  pid: 100 + index,
  slots: 4,
  free_slots: 3,
  inflight: 1,
  served: 12,
  heals: 0,
  extra: "kept",
  ...more,
});

const look = (
  atMs: number,
  generated: ReadonlyArray<readonly [number, number]> | null,
  ...replicas: object[]
): Look => ({
  atMs,
  status: statusSchema.parse({
    model: "atlas",
    draining: false,
    inflight: 2,
    waiting: 1,
    replicas: replicas.length === 0 ? [replica(0), replica(1)] : replicas,
  }),
  generated: generated === null ? null : new Map(generated),
});

test("tokens of each replica are read out of the metrics, whatever stands beside the label", (t) => {
  const text = [
    "# TYPE vllm:generation_tokens_total counter",
    'vllm:generation_tokens_total{replica="0"} 12',
    'vllm:generation_tokens_total{model="a",replica="1"} 3.5e+3',
    'vllm:generation_tokens_total_more{replica="2"} 1',
    'vllm:prompt_tokens_total{replica="3"} 1',
    "",
  ].join("\n");
  t.deepEqual(
    generatedTokens(text),
    new Map([
      [0, 12],
      [1, 3_500],
    ]),
  );
  t.deepEqual(generatedTokens(""), new Map());
});

test("a rate is what came between two looks, over the time between them", (t) => {
  const before = look(1_000, [
    [0, 100],
    [1, 7],
  ]);
  t.deepEqual(
    tokenRates(
      before,
      look(3_000, [
        [0, 300],
        [1, 7],
      ]),
    ),
    new Map([
      [0, 100],
      [1, 0],
    ]),
  );
});

test("a counter that fell is that of an agent started anew, and never gives a rate below 0", (t) => {
  t.deepEqual(tokenRates(look(0, [[0, 1_000]]), look(1_000, [[0, 50]])), new Map([[0, 50]]));
});

test("without metrics, or without a look before, there is no rate", (t) => {
  t.is(tokenRates(undefined, look(1, [[0, 1]])), null);
  t.is(tokenRates(look(0, null), look(1, [[0, 1]])), null);
  t.is(tokenRates(look(0, [[0, 1]]), look(1, null)), null);
  t.is(tokenRates(look(5, [[0, 1]]), look(5, [[0, 2]])), null);
});

test("the view names the model, the queue and each replica with its rate", (t) => {
  const lines = statusLines(
    "http://a",
    look(0, null, replica(0), replica(1, { state: "healing", reason: "silent" })),
    new Map([[0, 42]]),
  );
  t.is(lines[0], "atlas on http://a: 1 of 2 replicas ready");
  t.is(lines[1], "in flight 2, waiting 1, 42.0 tokens/s");
  t.regex(lines[4] ?? "", /^0 +ready +3\/4 +1 +12 +42\.0 +0 +100$/);
  t.regex(lines[5] ?? "", /^1 +healing .* - .* silent$/);
});

test("the view has a line about usage records where they are kept, and says what keeps them back", (t) => {
  const lineOf = (usage: object | null) => {
    const { status } = look(0, null);
    return statusLines("http://a", { ...look(0, null), status: statusSchema.parse({ ...status, usage }) }, null)[2];
  };
  t.is(lineOf(null), "");
  t.is(statusLines("http://a", look(0, null), null)[2], "", "an agent that tells nothing of it");
  t.is(lineOf({ backlog: 0, rejected: 0, delivery_error: null }), "usage records: 0 wait for the edge, 0 rejected");
  t.is(
    lineOf({ backlog: 12, rejected: 1, delivery_error: "http_503\u001b[2J" }),
    "usage records: 12 wait for the edge, 1 rejected; the last delivery failed: http_503 [2J",
  );
});

test("control characters of an engine's words do not reach the terminal", (t) => {
  const nasty = look(0, null, replica(0, { reason: "a\u001b[2Jb\nc\u202ed\u009be" }));
  const text = statusLines("http://a", nasty, null).join("\n");
  t.true(text.includes("a [2Jb c d e"), text);
});

test("the JSON has all that the agent said, and the rates", (t) => {
  const json = JSON.parse(
    statusJson(
      "http://a",
      look(0, null),
      new Map([
        [0, 1],
        [1, 2],
      ]),
    ),
  ) as {
    tokens_per_second: number;
    replicas: { extra: string; tokens_per_second: number }[];
  };
  t.is(json.tokens_per_second, 3);
  t.deepEqual(
    json.replicas.map(({ tokens_per_second }) => tokens_per_second),
    [1, 2],
  );
  t.is(json.replicas[0]?.extra, "kept");
  t.is(
    (JSON.parse(statusJson("http://a", look(0, null), null)) as { tokens_per_second: unknown }).tokens_per_second,
    null,
  );
});

test("a screen is cut to the terminal's size and clears what was there", (t) => {
  const shown = screenOf(["abcdef", "gh", "never"], 4, 2);
  t.is(shown, "\u001b[Habcd\u001b[K\r\ngh\u001b[K\u001b[J");
  const long = screenOf(
    Array.from({ length: 50 }, () => randomBytes(200).toString("hex")),
    80,
    24,
  );
  t.is(long.split("\r\n").length, 24);
});
