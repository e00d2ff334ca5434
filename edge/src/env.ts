/** All of the worker's bindings (wrangler.toml). Types alone. */
import type { KeyGuard } from "./admit/key-guard.ts";
import type { EnvTexts } from "./env-texts.ts";
import type { Fleet } from "./fleet/fleet-object.ts";

export interface Env extends EnvTexts {
  /** One object per API key, named by the key's id. */
  readonly KEY_GUARDS: DurableObjectNamespace<KeyGuard>;
  /** One object, named FLEET_NAME. */
  readonly FLEET: DurableObjectNamespace<Fleet>;
  /** The usage ledger and the directory of keys, tenants and changes. */
  readonly LEDGER: D1Database;
}
