/**
 * What the worker and a key's guard say to each other. Types alone: they pass between isolates as plain objects.
 *
 * A *permit* is one request of the rate limit; a *token* is a model token; a *lease* is one of the requests that may run at once.
 */
import type { ErrorCode } from "@lockgate/shared-types";

/** What a key may do. diagnostics: be told which agent and replica ran the request. */
export const scopes = ["chat", "models", "diagnostics"] as const;
export type Scope = (typeof scopes)[number];

/** Null means without that limit. */
export interface KeyLimits {
  readonly requestsPerMinute: number | null;
  readonly tokensPerMinute: number | null;
  /** Requests under way at once. */
  readonly concurrency: number | null;
  /** Tokens of a calendar month (UTC). */
  readonly tokensPerMonth: number | null;
}

/** One secret of a key; two while it is rotated. */
export interface SecretHash {
  /** SHA-256 of the whole key text, lower-case hex. */
  readonly sha256: string;
  /** Unix time, ms, from which it is refused; null for never. */
  readonly expiresAtMs: number | null;
}

/** A key as its guard keeps it, durably. */
export interface KeyDefinition {
  readonly keyId: string;
  readonly tenantId: string;
  readonly secrets: readonly SecretHash[];
  readonly scopes: readonly Scope[];
  /** Names of models that may be dispatched; null for all. */
  readonly models: readonly string[] | null;
  readonly limits: KeyLimits;
  /** Unix time, ms; null for never. */
  readonly expiresAtMs: number | null;
  readonly revokedAtMs: number | null;
}

export interface TakeRequest {
  /** SHA-256 of the key text that the client sent, lower-case hex. */
  readonly secretSha256: string;
  readonly requestId: string;
  readonly scope: Scope;
  /** The model that will be dispatched; null where none is (a list of models). */
  readonly model: string | null;
  /** Reserved against tokens a minute and a month until the usage record is there. 0 for a request without a turn. */
  readonly estimatedTokens: number;
}

/** What x-ratelimit-* headers say; null where the key has no such limit. */
export interface RateLimitState {
  readonly requests: { readonly limit: number; readonly remaining: number; readonly resetMs: number } | null;
  readonly tokens: { readonly limit: number; readonly remaining: number; readonly resetMs: number } | null;
}

export type TakeVerdict =
  | {
      readonly kind: "admitted";
      readonly tenantId: string;
      /** Hex; from the tenant and TENANT_SALT_SECRET. */
      readonly tenantSalt: string;
      readonly diagnostics: boolean;
      readonly rateLimits: RateLimitState;
    }
  | {
      readonly kind: "refused";
      readonly code: Extract<
        ErrorCode,
        "invalid_api_key" | "permission_denied" | "model_not_found" | "rate_limit_exceeded" | "insufficient_quota"
      >;
      /** For the log alone. */
      readonly cause:
        | "no_such_key"
        | "wrong_secret"
        | "expired"
        | "revoked"
        | "scope"
        | "model"
        | "requests_per_minute"
        | "tokens_per_minute"
        | "concurrency"
        | "monthly_budget"
        | "open_requests";
      /** When the same request could be admitted, ms from now; absent where waiting does not help. */
      readonly retryAfterMs?: number;
      readonly rateLimits?: RateLimitState;
    };

/** How a request ended, as the worker saw it. */
export interface RequestEnd {
  readonly requestId: string;
  /** The agent whose usage record is to be waited for; null where no agent took the request: nothing was used then. */
  readonly agent: string | null;
}

/** A turn that the ledger has booked. */
export interface BookedTurn {
  readonly requestId: string;
  readonly agentId: string;
  readonly turnId: string;
  /** Prompt and completion. */
  readonly tokens: number;
  /** False for a turn that came to nothing and that the agent goes on with elsewhere. */
  readonly endsRequest: boolean;
}

/** Usage, as the ledger has it. Absolute sums: telling them twice changes nothing. */
export interface Settlement {
  /** `YYYY-MM` to tokens booked in that month; of the months that were touched. */
  readonly monthTokens: Readonly<Record<string, number>>;
  readonly turns: readonly BookedTurn[];
}

/** A request whose usage is not known yet. */
export interface OpenRequest {
  readonly requestId: string;
  readonly startedAtMs: number;
  readonly estimatedTokens: number;
  /** Whether it still holds a lease. */
  readonly leased: boolean;
  /** Null while it runs. */
  readonly agent: string | null;
}

/** What the admin API shows of a guard. */
export interface KeyGuardView {
  readonly definition: KeyDefinition;
  readonly leases: number;
  readonly waiting: number;
  readonly month: string;
  readonly monthTokens: number;
  readonly rateLimits: RateLimitState;
  readonly open: readonly OpenRequest[];
}

/** What the guard of a key can be asked. Every call is one message to the object; none waits for a write but where it says so. */
export interface KeyGuardRpc {
  /** Verifies the secret and takes all limits, or none. Waits, for a bounded time, if only a lease is in the way. */
  take(request: TakeRequest): Promise<TakeVerdict>;
  /** Tells that a request still runs: prolongs its lease, and restores it in an object that has lost its memory. */
  renew(request: Pick<TakeRequest, "requestId" | "estimatedTokens">): Promise<void>;
  /** Frees the lease. Without an agent the reservation goes back at once. A second one changes nothing. */
  release(end: RequestEnd): Promise<void>;
  /** Books usage against limits and budget. Durable when it resolves. */
  settle(settlement: Settlement): Promise<void>;
  /**
   * Creates or replaces the definition. Durable when it resolves; takes effect with the next take. With `before`, the definition that the
   * new one was made from (null: none), nothing is changed and false returned if the guard has another one by now: of two changes at
   * once one is told, and none undoes a revocation that it did not see.
   */
  define(definition: KeyDefinition, before?: KeyDefinition | null): Promise<boolean>;
  /** Undefined if the key was never defined. */
  view(): Promise<KeyGuardView | undefined>;
}
