/**
 * The client of the bench, a process of its own so that its cost is not the server's: one kept-alive connection a caller, chunks stored as
 * they come and read only when the clock has stopped.
 */
import { Client } from "undici";
import { z } from "zod";
import { runLoad, serveLoads, type Target, type TurnTimes } from "./load.ts";
import { checkAnswer, MAX_TOKENS, MESSAGES } from "./question.ts";

const contentSchema = z.object({
  choices: z.array(z.object({ delta: z.object({ content: z.string().optional() }) })),
});

const DONE = "data: [DONE]";

/** Chunks with text in a stream, which must hold the whole expected answer and end as a finished turn does. */
const checkStream = (status: number, body: string): number => {
  if (status !== 200) throw new Error(`status ${status}: ${body.slice(0, 200)}`);
  const events = body.split("\n\n").filter((event) => event.startsWith("data: "));
  if (events.pop() !== DONE) throw new Error(`a stream without its end: ${body.slice(-200)}`);
  const pieces = events
    .map((event) => contentSchema.parse(JSON.parse(event.slice("data: ".length))).choices[0]?.delta.content ?? "")
    .filter((piece) => piece !== "");
  checkAnswer(pieces.join(""));
  return pieces.length;
};

const ask = (client: Client, target: Target): Promise<TurnTimes> =>
  new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    const startMs = performance.now();
    let ttftMs: number | undefined;
    let status = 0;
    client.dispatch(
      {
        method: "POST",
        path: "/v1/chat/completions",
        headers: { authorization: `Bearer ${target.key}`, "content-type": "application/json" },
        body: JSON.stringify({
          model: target.model,
          messages: MESSAGES,
          stream: true,
          temperature: 0,
          max_tokens: MAX_TOKENS,
        }),
      },
      {
        onRequestStart: () => undefined, // without it the library takes the handler for one of its older kind
        onResponseStart: (_, statusCode) => {
          status = statusCode;
        },
        onResponseData: (_, chunk) => {
          // A keep-alive is a comment: it begins with a colon.
          if (ttftMs === undefined && chunk.includes("data: ")) ttftMs = performance.now() - startMs;
          chunks.push(chunk);
        },
        onResponseEnd: () => {
          resolve({ ttftMs: ttftMs ?? Number.NaN, check: () => checkStream(status, Buffer.concat(chunks).toString()) });
        },
        onResponseError: (_, error) => reject(error),
      },
    );
  });

/** Connections by target and caller. */
const clients = new Map<string, Client[]>();

serveLoads(({ load, target }) => {
  if (target === undefined) throw new Error("the HTTP driver needs a target");
  const own = clients.get(target.url) ?? [];
  clients.set(target.url, own);
  while (own.length < load.callers) own.push(new Client(target.url));
  return runLoad(load, (caller) => ask(own[caller] as Client, target));
});
