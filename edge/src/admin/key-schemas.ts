/** API keys as the admin API takes and shows them. Pure schemas; the CLI reads answers with the same ones. */
import { z } from "@hono/zod-openapi";
import { scopes } from "../admit/key-guard-types.ts";
import { identifier } from "./identifier.ts";

/** More than any limit that is meant as one. */
const MAX_LIMIT = 1_000_000_000_000;
const MAX_MODELS = 64;
export const MAX_OVERLAP_S = 7 * 86_400;
/** What a rotation leaves to its clients unless told otherwise. */
export const DEFAULT_OVERLAP_S = 86_400;

/** One line for people. Signs that turn the writing direction could make one name look like another, and half a surrogate pair is no text. */
export const nameSchema = z
  .string()
  .regex(/^[^\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Bidi_Control}]{1,100}$/u, "must be 1 to 100 characters on one line")
  .openapi({ example: "ci" });

export const tenantIdSchema = identifier().openapi({ example: "acme" });
export const keyIdSchema = z
  .string()
  .regex(/^[0-9a-f]{32}$/, "must be 32 hex characters")
  .openapi({ example: "6f1d0c2b9a8e7f605d4c3b2a19080706" });

const limit = z.number().int().min(1).max(MAX_LIMIT).nullable();
const timeMs = z.number().int().nonnegative();

export const limitsSchema = z
  .strictObject({
    requests_per_minute: limit,
    tokens_per_minute: limit,
    concurrency: limit,
    tokens_per_month: limit,
  })
  .openapi("Limits", { description: "Null means without that limit." });

const scopesSchema = z.array(z.enum(scopes)).min(1).max(scopes.length);
const modelsSchema = z
  .array(z.string().min(1).max(256))
  .min(1)
  .max(MAX_MODELS)
  .nullable()
  .openapi({ description: "Models that may be used; null for all." });
const expirySchema = timeMs
  .nullable()
  .openapi({ description: "Unix ms from which the key is refused; null for never." });

export const newKeySchema = z
  .strictObject({
    tenant: tenantIdSchema,
    name: nameSchema,
    scopes: scopesSchema.default(["chat", "models"]),
    models: modelsSchema.default(null),
    limits: limitsSchema.partial().default({}),
    expires_at_ms: expirySchema.default(null),
  })
  .openapi("NewKey");
export type NewKey = z.output<typeof newKeySchema>;

export const keyChangeSchema = z
  .strictObject({
    name: nameSchema.optional(),
    scopes: scopesSchema.optional(),
    models: modelsSchema.optional(),
    limits: limitsSchema.partial().optional(),
    expires_at_ms: expirySchema.optional(),
  })
  .refine((change) => Object.keys(change).length > 0, "names nothing to change")
  .openapi("KeyChange", { description: "What is absent stays as it is." });
export type KeyChange = z.output<typeof keyChangeSchema>;

export const rotationSchema = z
  .strictObject({
    overlap_s: z
      .number()
      .int()
      .min(0)
      .max(MAX_OVERLAP_S)
      .default(DEFAULT_OVERLAP_S)
      .openapi({ description: "Seconds for which secrets from before are still taken; 0 ends them all now." }),
  })
  .openapi("Rotation");

export const keyStates = ["pending", "active", "revoked"] as const;

export const keyEntrySchema = z
  .object({
    key_id: keyIdSchema,
    tenant: tenantIdSchema,
    name: z.string(),
    state: z.enum(keyStates).openapi({
      description: "pending: its creation broke off, nobody was shown the key, and it is of no use but to be revoked.",
    }),
    scopes: z.array(z.enum(scopes)),
    models: z.array(z.string()).nullable(),
    limits: limitsSchema,
    expires_at_ms: timeMs.nullable(),
    revoked_at_ms: timeMs.nullable(),
    created_at_ms: timeMs,
    changed_at_ms: timeMs,
  })
  .openapi("Key", { description: "A key as the directory has it." });
export type KeyEntry = z.output<typeof keyEntrySchema>;

export const shownKeySchema = keyEntrySchema
  .extend({ key: z.string().openapi({ description: "The whole key. It is shown this once and stored nowhere." }) })
  .openapi("ShownKey");
export type ShownKey = z.output<typeof shownKeySchema>;

const rateLimit = z.object({ limit: z.number(), remaining: z.number(), reset_ms: z.number() }).nullable();

export const guardViewSchema = z
  .object({
    agrees: z.boolean().openapi({ description: "Whether the directory says of the key what its guard goes by." }),
    secrets: z.array(z.object({ expires_at_ms: timeMs.nullable() })),
    leases: z.number(),
    waiting: z.number(),
    month: z.string(),
    month_tokens: z.number(),
    rate_limits: z.object({ requests: rateLimit, tokens: rateLimit }),
    open_requests: z.array(
      z.object({
        request_id: z.string(),
        started_at_ms: timeMs,
        estimated_tokens: z.number(),
        leased: z.boolean(),
        agent: z.string().nullable(),
      }),
    ),
  })
  .openapi("Guard", {
    description: "The key's guard, which decides: limits as they are now, requests whose usage is open.",
  });

export const keyDetailsSchema = keyEntrySchema
  .extend({ guard: guardViewSchema.nullable().openapi({ description: "Null where the guard does not know the key." }) })
  .openapi("KeyDetails");
export type KeyDetails = z.output<typeof keyDetailsSchema>;
