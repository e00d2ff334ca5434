/**
 * The schema of `messages`: roles and text. It gives the conversation as the chat template takes it, text parts joined.
 *
 * An answer of ours, or of OpenAI's, can be sent back as it came: its empty fields (`refusal: null`, `tool_calls: []`) are
 * accepted. Deliberately absent: tools, images, audio and names of speakers; each is refused by name.
 */
import { z } from "zod";
import type { ChatMessage } from "../prompt/chat-template.ts";
import { addInvalid, addUnsupported, neutral, refused } from "./request-fields.ts";

/** Most messages of one request. */
export const MAX_MESSAGES = 2_048;

/** Most text parts of one message. */
export const MAX_CONTENT_PARTS = 1_024;

const role = z
  .string({ error: "must be system, developer, user or assistant" })
  .transform((value, sink): ChatMessage["role"] => {
    switch (value) {
      case "user":
      case "assistant":
      case "system":
        return value;
      case "developer": // OpenAI's newer name of the same thing
        return "system";
      case "tool":
      case "function":
        addUnsupported(sink, value, "tool calls are not supported, so neither are their results");
        return z.NEVER;
      default:
        addInvalid(sink, value, "must be system, developer, user or assistant");
        return z.NEVER;
    }
  });

const textPart = z.strictObject(
  {
    type: z.string({ error: 'must be "text"' }).superRefine((value, sink) => {
      if (value !== "text") addUnsupported(sink, value, 'only parts of type "text" are supported');
    }),
    text: z.string({ error: "must be a string" }),
    prompt_cache_breakpoint: refused("cache breakpoints are not supported"),
  },
  { error: (issue) => (issue.code === "unrecognized_keys" ? undefined : "must be an object with type and text") },
);

const content = z.preprocess(
  (value) => (typeof value === "string" ? [{ type: "text", text: value }] : value),
  z
    .array(textPart, { error: "must be a string or a list of text parts" })
    .min(1, { error: "must have at least one part" })
    .max(MAX_CONTENT_PARTS, { error: `must have at most ${MAX_CONTENT_PARTS} parts` })
    .transform((parts) => parts.map(({ text }) => text).join("")),
);

const emptyList = neutral(z.array(z.unknown()).max(0), "an empty list");

const message = z
  .strictObject(
    {
      role,
      content,
      name: refused("names of speakers are not supported"),
      refusal: refused("a refusal cannot be replayed"),
      audio: refused("audio is not supported"),
      annotations: emptyList,
      function_call: refused("function calls are not supported"),
      tool_calls: emptyList,
    },
    { error: (issue) => (issue.code === "unrecognized_keys" ? undefined : "must be an object with role and content") },
  )
  .transform(({ role, content }): ChatMessage => ({ role, content }));

/** `messages` of a chat request: 1 to MAX_MESSAGES of them. */
export const chatMessagesSchema = z
  .array(message, { error: "must be a list of messages" })
  .min(1, { error: "must have at least one message" })
  .max(MAX_MESSAGES, { error: `must have at most ${MAX_MESSAGES} messages` });
