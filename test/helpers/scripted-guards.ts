/**
 * Guards of keys in memory, for unit tests of what calls them: they keep definitions and sums as the real ones do, admit nobody, and fail
 * when a test says so.
 */
import type { KeyDefinition, KeyGuardRpc, KeyGuardView, Settlement } from "../../edge/src/admit/key-guard-types.ts";
import { isSameDefinition } from "../../edge/src/admit/same-definition.ts";

export type Guard = Pick<KeyGuardRpc, "define" | "view" | "settle">;

export interface ScriptedGuards {
  readonly guardOf: (keyId: string) => Guard;
  /** Definitions by key. */
  readonly definitions: Map<string, KeyDefinition>;
  /** Month to tokens, by key: the highest that was told. */
  readonly months: Map<string, Map<string, number>>;
  readonly settlements: { readonly keyId: string; readonly settlement: Settlement }[];
  /** Called before and after each call; what it throws is what the caller sees, "after" with the call's effect kept. */
  fault: (when: "before" | "after", call: keyof Guard) => void;
}

/** `month` is the guards' own. */
export const createScriptedGuards = (month: string): ScriptedGuards => {
  const definitions = new Map<string, KeyDefinition>();
  const months = new Map<string, Map<string, number>>();
  const call = async <T>(name: keyof Guard, act: () => T): Promise<T> => {
    guards.fault("before", name);
    const result = act();
    guards.fault("after", name);
    return result;
  };
  const settle = (keyId: string, settlement: Settlement): void => {
    guards.settlements.push({ keyId, settlement });
    const sums = months.get(keyId) ?? new Map<string, number>();
    for (const [of, tokens] of Object.entries(settlement.monthTokens)) {
      sums.set(of, Math.max(tokens, sums.get(of) ?? 0));
    }
    months.set(keyId, sums);
  };
  const view = (keyId: string): KeyGuardView | undefined => {
    const definition = definitions.get(keyId);
    if (definition === undefined) return undefined;
    const monthTokens = months.get(keyId)?.get(month) ?? 0;
    const rateLimits = { requests: null, tokens: null };
    return { definition, leases: 0, waiting: 0, month, monthTokens, rateLimits, open: [] };
  };
  const define = (definition: KeyDefinition, before?: KeyDefinition | null): boolean => {
    const known = definitions.get(definition.keyId) ?? null;
    if (before !== undefined && !isSameDefinition(known, before)) return false;
    definitions.set(definition.keyId, definition);
    return true;
  };
  const guards: ScriptedGuards = {
    definitions,
    months,
    settlements: [],
    fault: () => {},
    guardOf: (keyId) => ({
      define: (definition, before) => call("define", () => define(definition, before)),
      view: () => call("view", () => view(keyId)),
      settle: (settlement) => call("settle", () => settle(keyId, settlement)),
    }),
  };
  return guards;
};
