/**
 * Pages of a list: how many rows, and where the last page ended. Pure.
 *
 * A cursor is the sort key of the last row, so that a page costs the same however far down it is, and rows that come or go between two
 * pages shift nothing. It is no secret and grants nothing.
 */
import { z } from "@hono/zod-openapi";
import { toHex } from "../admit/digest.ts";

export const DEFAULT_PAGE_ROWS = 100;
export const MAX_PAGE_ROWS = 500;
const MAX_CURSOR_CHARS = 16_384;

const cursorPartsSchema = z.array(z.union([z.string(), z.number()])).max(8);
export type CursorParts = readonly (string | number)[];

export const encodeCursor = (parts: CursorParts): string => toHex(new TextEncoder().encode(JSON.stringify(parts)));

const fromHex = (text: string): Uint8Array =>
  Uint8Array.from(text.match(/../g) ?? [], (digits) => Number.parseInt(digits, 16));

const decodeCursor = (text: string): CursorParts | undefined => {
  try {
    return cursorPartsSchema.parse(JSON.parse(new TextDecoder().decode(fromHex(text))));
  } catch {
    return undefined;
  }
};

/** `?limit=` of a list, up to `max` rows. */
export const limitSchema = (fallback = DEFAULT_PAGE_ROWS, max = MAX_PAGE_ROWS) =>
  z
    .string()
    .regex(/^\d{1,4}$/, `must be a whole number from 1 to ${max}`)
    .transform(Number)
    .refine((rows) => rows >= 1 && rows <= max, `must be a whole number from 1 to ${max}`)
    .optional()
    .transform((rows) => rows ?? fallback)
    .openapi({ type: "integer", minimum: 1, maximum: max, default: fallback, description: "Most rows of this page." });

/** `?cursor=`, which must have as many parts as the list's order. */
export const cursorSchema = (parts: number) =>
  z
    .string()
    .regex(/^([0-9a-f]{2})+$/, "must be the next_cursor of a page before")
    .max(MAX_CURSOR_CHARS)
    .transform((text, context): CursorParts => {
      const decoded = decodeCursor(text);
      if (decoded?.length === parts) return decoded;
      context.addIssue({ code: "custom", message: "must be the next_cursor of a page before" });
      return z.NEVER;
    })
    .optional()
    .openapi({ type: "string", description: "next_cursor of the page before." });

/** A page in an answer: rows and, where more may follow, the cursor to ask with. */
export const pageSchema = <Row extends z.ZodType>(row: Row) =>
  z.object({ data: z.array(row), next_cursor: z.string().nullable() });

export interface Page<Row> {
  readonly data: Row[];
  readonly next_cursor: string | null;
}

/** Makes a page of rows that were asked for with one more than `limit`. */
export const pageOf = <Row>(rows: readonly Row[], limit: number, cursorOf: (row: Row) => CursorParts): Page<Row> => {
  const data = rows.slice(0, limit);
  const last = data.at(-1);
  return { data, next_cursor: rows.length > limit && last !== undefined ? encodeCursor(cursorOf(last)) : null };
};
