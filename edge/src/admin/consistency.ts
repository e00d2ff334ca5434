/**
 * Compares what the ledger says of keys with what their guards go by. Pure: it makes statements and judges rows.
 *
 * A batch of records that is on its way is in the ledger a moment before the guards know of it, and shows as a difference for that moment;
 * one that stays is a fault. Nothing is mended here.
 */
import { z } from "@hono/zod-openapi";
import type { KeyGuardView } from "../admit/key-guard-types.ts";
import type { Statement } from "../usage/ledger.ts";
import { agrees } from "./key-definition.ts";
import { type KeyEntry, keyIdSchema, keyStates } from "./key-schemas.ts";
import { cursorSchema, limitSchema } from "./paging.ts";

/** A page asks as many guards. */
export const MAX_CONSISTENCY_KEYS = 50;
const DEFAULT_CONSISTENCY_KEYS = 25;
/** Guards asked at once. */
export const VIEW_PARALLEL = 6;
/** Requests named in one difference. */
export const MAX_NAMED_REQUESTS = 20;

export const consistencyQuerySchema = z.strictObject({
  key: keyIdSchema.optional().openapi({ description: "One key; all, page by page, if absent." }),
  limit: limitSchema(DEFAULT_CONSISTENCY_KEYS, MAX_CONSISTENCY_KEYS),
  cursor: cursorSchema(1),
});

export const differenceSchema = z
  .object({
    what: z.enum(["definition", "month_tokens", "leases", "open_but_booked"]).openapi({
      description:
        "definition: directory and guard do not say the same. month_tokens: of the guard's month. leases: the guard's count against " +
        "its requests. open_but_booked: requests that the guard waits for and the ledger has.",
    }),
    ledger: z.union([z.number(), z.string()]),
    guard: z.union([z.number(), z.string()]),
    requests: z
      .array(z.string())
      .optional()
      .openapi({ description: `At most ${MAX_NAMED_REQUESTS}.` }),
  })
  .openapi("Difference");
export type Difference = z.output<typeof differenceSchema>;

export const consistencyRowSchema = z
  .object({
    key_id: keyIdSchema,
    state: z.enum(keyStates),
    month: z.string().nullable(),
    ledger_month_tokens: z.number(),
    guard_month_tokens: z.number(),
    leases: z.number(),
    open_requests: z.number(),
    lost_requests: z.number(),
    differences: z.array(differenceSchema),
  })
  .openapi("Consistency");
export type ConsistencyRow = z.output<typeof consistencyRowSchema>;

/** A key with its guard's view; undefined where the guard does not know it. */
export interface ViewedKey {
  readonly entry: KeyEntry;
  readonly view: KeyGuardView | undefined;
}

/** One statement for all keys of a page: sums of the guards' months, lost requests, and open requests that are booked. */
export const ledgerSideStatement = (keys: readonly ViewedKey[]): Statement => ({
  sql: `
SELECT value ->> 'key' AS key_id,
  ifnull((SELECT tokens FROM usage_monthly WHERE key_id = value ->> 'key' AND month = value ->> 'month'), 0) AS month_tokens,
  (SELECT count(*) FROM lost_requests WHERE key_id = value ->> 'key') AS lost_requests,
  (
    SELECT json_group_array(DISTINCT request_id) FROM turns
    WHERE request_id IN (SELECT open.value FROM json_each(item.value, '$.open') AS open) AND key_id = item.value ->> 'key'
      AND (outcome <> 'failed' OR completion_tokens > 0)
  ) AS booked
FROM json_each(?1) AS item`,
  values: [
    JSON.stringify(
      keys.map(({ entry, view }) => ({
        key: entry.key_id,
        month: view?.month ?? null,
        open: view?.open.map(({ requestId }) => requestId) ?? [],
      })),
    ),
  ],
});

const ledgerSideSchema = z.object({
  key_id: z.string(),
  month_tokens: z.number(),
  lost_requests: z.number(),
  booked: z
    .string()
    .transform((text): unknown => JSON.parse(text))
    .pipe(z.array(z.string())),
});
type LedgerSide = z.output<typeof ledgerSideSchema>;

const differencesOf = ({ entry, view }: ViewedKey, ledger: LedgerSide): Difference[] => {
  if (view === undefined) {
    // A pending key is not defined yet, or never was; a revoked one may have been pending before.
    return entry.state === "active" ? [{ what: "definition", ledger: "active", guard: "unknown" }] : [];
  }
  const differences: Difference[] = [];
  if (!agrees(entry, view.definition)) {
    const guard = view.definition.revokedAtMs === null ? "active" : "revoked";
    differences.push({ what: "definition", ledger: entry.state, guard });
  }
  if (ledger.month_tokens !== view.monthTokens) {
    differences.push({ what: "month_tokens", ledger: ledger.month_tokens, guard: view.monthTokens });
  }
  const leased = view.open.filter(({ leased }) => leased).length;
  if (leased !== view.leases) differences.push({ what: "leases", ledger: leased, guard: view.leases });
  if (ledger.booked.length > 0) {
    const requests = ledger.booked.slice(0, MAX_NAMED_REQUESTS);
    differences.push({ what: "open_but_booked", ledger: ledger.booked.length, guard: view.open.length, requests });
  }
  return differences;
};

/** Judges each key by the rows of ledgerSideStatement. */
export const compare = (keys: readonly ViewedKey[], rows: readonly unknown[]): ConsistencyRow[] => {
  const sides = new Map(
    ledgerSideSchema
      .array()
      .parse(rows)
      .map((side) => [side.key_id, side]),
  );
  return keys.map((key) => {
    const { entry, view } = key;
    const side = sides.get(entry.key_id);
    if (side === undefined) throw new Error("the ledger left a key out");
    return {
      key_id: entry.key_id,
      state: entry.state,
      month: view?.month ?? null,
      ledger_month_tokens: side.month_tokens,
      guard_month_tokens: view?.monthTokens ?? 0,
      leases: view?.leases ?? 0,
      open_requests: view?.open.length ?? 0,
      lost_requests: side.lost_requests,
      differences: differencesOf(key, side),
    };
  });
};
