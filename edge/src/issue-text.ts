/**
 * A schema's complaint in words: where, and which rule. Pure. It shows nothing of the value, which could be a pasted secret; the name of
 * a field that is not known is shown, cut short.
 */
import type * as z from "zod";

/** Longest text; an error says what is wrong first, not everything. */
const MAX_ISSUE_CHARS = 200;

/** `records[3].model` for a path. */
export const pathText = (path: readonly PropertyKey[]): string =>
  path
    .map((part) => (typeof part === "number" ? `[${part}]` : `.${String(part)}`))
    .join("")
    .replace(/^\./, "");

/** The first issue, e.g. `records[3].model: Invalid input: expected string, received number`. */
export const issueText = (error: z.ZodError): string => {
  const [issue] = error.issues;
  if (issue === undefined) return "does not have the documented shape";
  const path = pathText(issue.path);
  return `${path === "" ? "" : `${path}: `}${issue.message}`.slice(0, MAX_ISSUE_CHARS);
};
