/**
 * What the admin API works with, passed in: the ledger, the guards of keys, the fleet, a clock. Types alone; ports-of-env.ts makes them of
 * the worker's bindings, tests of other things.
 */
import type { MintedKey } from "../admit/api-key-format.ts";
import type { KeyGuardRpc } from "../admit/key-guard-types.ts";
import type { Ledger } from "../usage/ledger.ts";
import type { FleetPort } from "./fleet-port.ts";

export interface AdminPorts {
  readonly ledger: Ledger;
  /** The guard of a key, to be asked only for an id that is genuine. */
  readonly guardOf: (keyId: string) => Pick<KeyGuardRpc, "define" | "view">;
  readonly isGenuineKeyId: (keyId: string) => Promise<boolean>;
  /** A fresh key; a fresh secret for a key that is there. */
  readonly mintKey: () => Promise<MintedKey>;
  readonly mintSecret: (keyId: string) => Promise<MintedKey>;
  readonly fleet: FleetPort;
  readonly logError: (event: string, fields: Readonly<Record<string, string>>) => void;
}

/** Who asks, when, and in which request: what the audit log says of a change. */
export interface Asker {
  /** A fingerprint of the credential. */
  readonly actor: string;
  readonly requestId: string;
  readonly nowMs: number;
}

/** The bindings of the admin app, in Hono's sense. */
export interface AdminContext {
  readonly ports: AdminPorts;
  readonly asker: Asker;
}
