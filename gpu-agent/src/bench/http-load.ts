/**
 * The client of a benchmark, a process of its own so that its cost is not the server's: one kept-alive connection a caller, bytes stored as
 * they come and read only when the clock has stopped. Node's own HTTP client, so that the package needs no other.
 */
import { Agent, request as httpRequest } from "node:http";
import { z } from "zod";
import { type Answer, BAN_BIAS, type Load, runLoad, serveLoads, type Target, type TurnTimes } from "./load.ts";

const usageSchema = z.object({ completion_tokens: z.number() });
const eventSchema = z.object({
  choices: z.array(z.object({ delta: z.object({ content: z.string().optional() }) })),
  usage: usageSchema.nullish(),
});
const bodySchema = z.object({
  choices: z.array(z.object({ message: z.object({ content: z.string() }) })).length(1),
  usage: usageSchema,
});

const DATA = "data: ";
const DONE = "data: [DONE]";
const SHOWN_CHARS = 200;

/** The answer in a stream, which must end as a finished turn does. */
export const readStream = (body: string): Answer => {
  const events = body.split("\n\n").filter((event) => event.startsWith(DATA));
  if (events.pop() !== DONE) throw new Error(`a stream without its end: ${body.slice(-SHOWN_CHARS)}`);
  const parsed = events.map((event) => eventSchema.parse(JSON.parse(event.slice(DATA.length))));
  const pieces = parsed.map(({ choices }) => choices[0]?.delta.content ?? "").filter((piece) => piece !== "");
  const tokens = parsed.at(-1)?.usage?.completion_tokens;
  if (tokens === undefined) throw new Error("a stream that does not tell its tokens");
  return { text: pieces.join(""), tokens, chunks: pieces.length };
};

const readBody = (body: string): Answer => {
  const { choices, usage } = bodySchema.parse(JSON.parse(body));
  return { text: choices[0]?.message.content ?? "", tokens: usage.completion_tokens, chunks: 1 };
};

/** What is posted for each turn of a load. */
const requestBody = ({ messages, maxTokens, bannedTokens, stream }: Load, model: string): Buffer =>
  Buffer.from(
    JSON.stringify({
      model,
      messages,
      temperature: 0,
      max_tokens: maxTokens,
      ...(stream ? { stream, stream_options: { include_usage: true } } : {}),
      ...(bannedTokens.length === 0
        ? {}
        : { logit_bias: Object.fromEntries(bannedTokens.map((token) => [token, BAN_BIAS])) }),
    }),
  );

const ask = (agent: Agent, url: URL, key: string, body: Buffer, stream: boolean): Promise<TurnTimes> =>
  new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let ttftMs: number | undefined;
    const headers = {
      authorization: `Bearer ${key}`,
      "content-type": "application/json",
      "content-length": body.length,
    };
    const startMs = performance.now();
    const request = httpRequest(url, { method: "POST", agent, headers }, (response) => {
      response.on("error", reject);
      response.on("data", (chunk: Buffer) => {
        // A keep-alive is a comment: it begins with a colon.
        if (stream && ttftMs === undefined && chunk.includes(DATA)) ttftMs = performance.now() - startMs;
        chunks.push(chunk);
      });
      response.on("end", () => {
        resolve({
          ttftMs,
          turnMs: performance.now() - startMs,
          answer: () => {
            const text = Buffer.concat(chunks).toString();
            if (response.statusCode !== 200) {
              throw new Error(`status ${response.statusCode}: ${text.slice(0, SHOWN_CHARS)}`);
            }
            return stream ? readStream(text) : readBody(text);
          },
        });
      });
    });
    request.on("error", reject);
    request.end(body);
  });

/** Runs loads over HTTP until the benchmark is gone. */
export const runHttpLoads = (): Promise<void> => {
  // Callers bound the sockets; the one that was used last is used first, so a smaller load keeps to as many connections as it has callers.
  const agent = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY });
  const askOnce = (load: Load, { url, key, model }: Target) => {
    const address = new URL("/v1/chat/completions", url);
    const body = requestBody(load, model);
    return runLoad(load, () => ask(agent, address, key, body, load.stream));
  };
  return serveLoads(({ load, target }) => {
    if (target === undefined) return Promise.reject(new Error("the HTTP client needs a target"));
    return askOnce(load, target);
  });
};
