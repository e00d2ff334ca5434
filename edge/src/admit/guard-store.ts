/**
 * How a guard keeps its key: the definition, the month's tokens, both windows and every open request under keys of their own. A thin
 * shell over an object's storage.
 *
 * Nothing here holds the object's outgoing messages back until a write is confirmed (allowUnconfirmed); who needs a confirmation waits
 * for confirmed(). What it reads it has written itself, so it is not parsed again.
 */
import type { MonthTokens } from "./budget.ts";
import type { KeyDefinition } from "./key-guard-types.ts";
import type { StateChanges, StoredRequest, StoredState } from "./key-state.ts";
import type { WindowSnapshot } from "./sliding-window.ts";

/** What is needed of an object's storage. */
export interface ObjectStorage {
  get<T>(key: string): Promise<T | undefined>;
  list<T>(options: { prefix: string }): Promise<Map<string, T>>;
  put<T>(entries: Record<string, T>, options: { allowUnconfirmed: true }): Promise<void>;
  delete(keys: string[], options: { allowUnconfirmed: true }): Promise<number>;
  sync(): Promise<void>;
  getAlarm(): Promise<number | null>;
  setAlarm(atMs: number, options: { allowUnconfirmed: true }): Promise<void>;
}

/** The platform's bound for one call. */
export const MAX_KEYS_OF_CALL = 128;

const DEFINITION = "definition";
const MONTHS = "months";
const WINDOWS = "windows";
const OPEN = "open/";
const unconfirmed = { allowUnconfirmed: true } as const;

const inGroups = <T>(items: readonly T[]): T[][] =>
  Array.from({ length: Math.ceil(items.length / MAX_KEYS_OF_CALL) }, (_, index) =>
    items.slice(index * MAX_KEYS_OF_CALL, (index + 1) * MAX_KEYS_OF_CALL),
  );

export interface StoredKey {
  readonly definition: KeyDefinition;
  readonly state: StoredState;
  readonly alarmAtMs: number | undefined;
}

export class GuardStore {
  readonly #storage: ObjectStorage;

  constructor(storage: ObjectStorage) {
    this.#storage = storage;
  }

  /** Undefined for a key that was never defined; nothing is written then, so the object leaves no trace. */
  async load(): Promise<StoredKey | undefined> {
    const definition = await this.#storage.get<KeyDefinition>(DEFINITION);
    if (definition === undefined) return undefined;
    const windows = await this.#storage.get<{ requests: WindowSnapshot; tokens: WindowSnapshot }>(WINDOWS);
    const requests = await this.#storage.list<StoredRequest>({ prefix: OPEN });
    return {
      definition,
      state: {
        requestWindow: windows?.requests ?? [],
        tokenWindow: windows?.tokens ?? [],
        requests: [...requests.values()],
        monthTokens: (await this.#storage.get<MonthTokens>(MONTHS)) ?? {},
      },
      alarmAtMs: (await this.#storage.getAlarm()) ?? undefined,
    };
  }

  async putDefinition(definition: KeyDefinition): Promise<void> {
    await this.#storage.put({ [DEFINITION]: definition }, unconfirmed);
  }

  async putMonths(months: MonthTokens): Promise<void> {
    await this.#storage.put({ [MONTHS]: months }, unconfirmed);
  }

  async putChanges({ windows, changed, closed }: StateChanges): Promise<void> {
    const writes: Promise<unknown>[] = [];
    if (windows !== undefined) writes.push(this.#storage.put({ [WINDOWS]: windows }, unconfirmed));
    for (const group of inGroups(changed)) {
      const entries = Object.fromEntries(group.map((request) => [`${OPEN}${request.requestId}`, request]));
      writes.push(this.#storage.put(entries, unconfirmed));
    }
    for (const group of inGroups(closed)) {
      writes.push(
        this.#storage.delete(
          group.map((requestId) => `${OPEN}${requestId}`),
          unconfirmed,
        ),
      );
    }
    await Promise.all(writes);
  }

  async setAlarm(atMs: number): Promise<void> {
    await this.#storage.setAlarm(atMs, unconfirmed);
  }

  /** Resolves once everything that was put before is on disk. */
  async confirmed(): Promise<void> {
    await this.#storage.sync();
  }
}
