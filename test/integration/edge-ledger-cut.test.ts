/** Turns that are cut off, on a real agent whose engine makes a token every few milliseconds: what the ledger has of them. */
import { fileURLToPath } from "node:url";
import test from "ava";
import { provisionKey } from "../helpers/admin-client.ts";
import { poll } from "../helpers/agent-process.ts";
import { type EdgeWithAgent, startEdgeWithAgent } from "../helpers/edge-with-agent.ts";
import { seedOf } from "../helpers/engine-pace.ts";

const engine = fileURLToPath(new URL("../helpers/paced-engine.ts", import.meta.url));
/** The engine makes one token in this time, and none of the turns here comes to its end. */
const TOKEN_MS = 20;
const MAX_TOKENS = 1_900;

let path: EdgeWithAgent;
test.before(async () => {
  path = await startEdgeWithAgent({
    words: ["--engine-command", JSON.stringify([process.execPath, engine])],
  });
});
test.after.always(async () => {
  await path?.stop();
});

interface TurnRow {
  readonly outcome: string;
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
}

const turnsOf = async (keyId: string): Promise<TurnRow[]> => {
  const turns = path.edge.ledger.prepare(
    "SELECT outcome, prompt_tokens, completion_tokens FROM turns WHERE key_id = ?",
  );
  return (await turns.bind(keyId).all<TurnRow>()).results;
};

test.serial(
  "field report 27: a stream that its client cuts off is booked with the tokens that were consumed, and frees what was reserved",
  async (t) => {
    // Room for one such request: the next one gets in only if the first gave its reservation back.
    const { id, text } = await provisionKey(path.admin, {
      limits: { tokens_per_month: MAX_TOKENS + 100, concurrency: 1 },
    });
    const body = {
      model: "default",
      stream: true,
      max_tokens: MAX_TOKENS,
      seed: seedOf("tokens", TOKEN_MS),
      messages: [{ role: "user", content: "Hello" }],
    };
    let booked = 0;
    for (let cuts = 1; cuts <= 2; cuts += 1) {
      const gone = new AbortController();
      const stream = await path.chat(text, body, { signal: gone.signal });
      t.is(stream.status, 200, `the ${cuts}. stream`);
      let seen = "";
      for await (const chunk of stream.body ?? []) {
        seen += new TextDecoder().decode(chunk);
        if (seen.split('"content":"A').length > 3) break;
      }
      gone.abort();
      const turns = await poll(
        () => turnsOf(id),
        (rows) => rows.length === cuts,
        "the record of the stream that was cut off",
      );
      await path.settled(id);
      for (const turn of turns) {
        t.is(turn.outcome, "aborted");
        t.true(turn.completion_tokens >= 3);
      }
      booked = turns.reduce((sum, turn) => sum + turn.prompt_tokens + turn.completion_tokens, 0);
      t.is((await path.admin("GET", `/keys/${id}`)).body.guard.month_tokens, booked);
    }
    t.deepEqual((await path.admin("GET", `/consistency?key=${id}`)).body.data[0].differences, []);
  },
);
