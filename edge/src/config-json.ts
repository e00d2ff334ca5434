/**
 * Parses one variable that holds JSON. Pure. A fault is a hint that names the variable and the rule, never the text: most of them hold
 * secrets or addresses.
 */
import type * as z from "zod";

export type Parsed<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly hint: string };

/** `name` is the variable's; undefined means that it is not set. */
export const parseJsonVar = <T>(name: string, schema: z.ZodType<T>, text: string | undefined): Parsed<T> => {
  if (text === undefined) return { ok: false, hint: `${name} is not set` };
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return { ok: false, hint: `${name} is not JSON` };
  }
  const parsed = schema.safeParse(json);
  if (parsed.success) return { ok: true, value: parsed.data };
  // The code alone: its path may end in a record's key, which could be a pasted secret.
  return {
    ok: false,
    hint: `${name} does not have the documented shape (${parsed.error.issues[0]?.code ?? "unknown"})`,
  };
};
