/**
 * Reads and tokenises one small request before the first client does: schema, template and tokenizer build much of what they need on first
 * use (about 13 ms together), which the first client of a process would wait for.
 */
import type { ServedModel } from "../models/served-model.ts";
import { parseChatRequest } from "./chat-request.ts";

const SAMPLE = JSON.stringify({
  model: "any",
  messages: [{ role: "user", content: "Hello." }],
  stream: true,
  max_tokens: 1,
  temperature: 0,
});

/** Never rejects: a template that refuses the sample may take what clients send. */
export const warmUp = async (model: ServedModel): Promise<void> => {
  const parsed = parseChatRequest(Buffer.from(SAMPLE));
  if (parsed.ok) await model.tokenize(parsed.request.messages);
};
