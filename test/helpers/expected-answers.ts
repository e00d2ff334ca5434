/** The built-in model's prompts and exact greedy answers (test/fixtures/expected-answers.json, from its card). */
import { readFileSync } from "node:fs";
import { z } from "zod";

const itemSchema = z.object({
  id: z.string(),
  task: z.string(),
  prompt_tokens: z.number(),
  expected_tokens: z.number(),
  max_tokens: z.number(),
  messages: z.array(z.object({ role: z.string(), content: z.string() })),
  expected: z.string(),
});
export type ExpectedAnswer = z.infer<typeof itemSchema>;

export const expectedAnswers: readonly ExpectedAnswer[] = z
  .object({ items: z.array(itemSchema) })
  .parse(JSON.parse(readFileSync(new URL("../fixtures/expected-answers.json", import.meta.url), "utf8"))).items;

/** The one with this id. */
export const expectedAnswer = (id: string): ExpectedAnswer => {
  const item = expectedAnswers.find((candidate) => candidate.id === id);
  if (item === undefined) throw new Error(`there is no expected answer ${id}`);
  return item;
};
