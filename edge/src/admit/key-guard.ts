/**
 * The object behind one API key, named by the key's id: everything that must be exact about the key happens here, one call at a time.
 *
 * A shell: it gives GuardCore its storage, clock, timers and ledger, and adds the tenant's salt. It never waits for a write in take().
 */
import { DurableObject } from "cloudflare:workers";
import type { Env } from "../env.ts";
import { logError } from "../log.ts";
import { count } from "../metrics/count.ts";
import { tellLater } from "../metrics/hand-over.ts";
import { bookLostRequests } from "./book-lost-requests.ts";
import { hmacHex } from "./digest.ts";
import { GuardCore } from "./guard-core.ts";
import { GuardStore } from "./guard-store.ts";
import type {
  KeyDefinition,
  KeyGuardRpc,
  KeyGuardView,
  RequestEnd,
  Settlement,
  TakeRequest,
  TakeVerdict,
} from "./key-guard-types.ts";
import { importSecret } from "./secrets.ts";

/** Half of the MAC: enough that no two tenants share a partition of a prefix cache. */
const TENANT_SALT_HEX_CHARS = 32;

/** A wait in ms in the place of SETTLE_WAIT_MS. */
const lostAfterMs = (text: string | undefined): number | undefined =>
  text !== undefined && /^\d{1,9}$/.test(text) ? Number(text) : undefined;

export class KeyGuard extends DurableObject<Env> implements KeyGuardRpc {
  #loaded: GuardCore | undefined;
  #salt: { readonly tenantId: string; readonly hex: string } | undefined;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    // Nothing is delivered before this is through.
    ctx.blockConcurrencyWhile(async () => {
      const store = new GuardStore(ctx.storage);
      const after = lostAfterMs(env.LOST_AFTER_MS);
      this.#loaded = new GuardCore(
        {
          store,
          now: Date.now,
          later: (delayMs, callBack) => void setTimeout(callBack, delayMs),
          bookLost: (rows) => bookLostRequests(env.LEDGER, rows),
          logError: (event, cause) => logError(event, { keyId: ctx.id.name, cause }),
          count: (name, by) => {
            count(name, [], by);
            tellLater(env, (work) => ctx.waitUntil(work));
          },
          ...(after === undefined ? {} : { lostAfterMs: after }),
        },
        await store.load(),
      );
    });
  }

  async take(request: TakeRequest): Promise<TakeVerdict> {
    // Before anything is taken: what fails here then takes nothing.
    const tenantSalt = await this.#tenantSalt();
    const verdict = await this.#core.take(request);
    return verdict.kind === "admitted" ? { ...verdict, tenantSalt } : verdict;
  }

  async renew(request: Pick<TakeRequest, "requestId" | "estimatedTokens">): Promise<void> {
    this.#core.renew(request);
  }

  async release(end: RequestEnd): Promise<void> {
    this.#core.release(end);
  }

  async settle(settlement: Settlement): Promise<void> {
    await this.#core.settle(settlement);
  }

  async define(definition: KeyDefinition, before?: KeyDefinition | null): Promise<boolean> {
    if (definition.keyId !== this.ctx.id.name) throw new Error("the definition is another key's");
    return this.#core.define(definition, before);
  }

  async view(): Promise<KeyGuardView | undefined> {
    return this.#core.view();
  }

  override async alarm(): Promise<void> {
    await this.#core.alarm();
  }

  get #core(): GuardCore {
    if (this.#loaded === undefined) throw new Error("the object is not loaded");
    return this.#loaded;
  }

  /** Of the key's tenant; computed once. Empty for a key that was never defined, which is never admitted. */
  async #tenantSalt(): Promise<string> {
    const tenantId = this.#core.definition?.tenantId;
    if (tenantId === undefined) return "";
    if (this.#salt?.tenantId === tenantId) return this.#salt.hex;
    const secret = await importSecret("TENANT_SALT_SECRET", this.env.TENANT_SALT_SECRET);
    if (!secret.ok) throw new Error(secret.hint);
    const hex = (await hmacHex(secret.key, `tenant salt ${tenantId}`)).slice(0, TENANT_SALT_HEX_CHARS);
    this.#salt = { tenantId, hex };
    return hex;
  }
}
