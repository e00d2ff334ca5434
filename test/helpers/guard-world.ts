/**
 * A key's guard without workerd: a clock and timers that a test moves, a storage that can fail at its N-th call and forgets what was not
 * confirmed, a ledger that can refuse. `loseMemory` starts the guard again from what the storage has.
 */
import { GuardCore, type LostRequest } from "../../edge/src/admit/guard-core.ts";
import { GuardStore, type ObjectStorage } from "../../edge/src/admit/guard-store.ts";
import { nowMs } from "./key-guard.ts";

/** Lets everything that waits for nothing but promises run. */
const promiseJobs = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

class MemoryStorage implements ObjectStorage {
  calls = 0;
  failAt: number | undefined;
  readonly #disk = new Map<string, unknown>();
  /** What has been written, with what is not confirmed yet. */
  #seen = new Map<string, unknown>();
  #alarmMs: number | null = null;
  #seenAlarmMs: number | null = null;

  get keys(): string[] {
    return [...this.#seen.keys()];
  }

  async get<T>(key: string): Promise<T | undefined> {
    this.#count();
    return structuredClone(this.#seen.get(key)) as T | undefined;
  }

  async list<T>({ prefix }: { prefix: string }): Promise<Map<string, T>> {
    this.#count();
    return new Map([...this.#seen].filter(([key]) => key.startsWith(prefix)) as [string, T][]);
  }

  async put(entries: Record<string, unknown>): Promise<void> {
    this.#count();
    for (const [key, value] of Object.entries(entries)) this.#seen.set(key, structuredClone(value));
  }

  async delete(keys: string[]): Promise<number> {
    this.#count();
    return keys.filter((key) => this.#seen.delete(key)).length;
  }

  async sync(): Promise<void> {
    this.#count();
    this.confirm();
  }

  async getAlarm(): Promise<number | null> {
    this.#count();
    return this.#seenAlarmMs;
  }

  async setAlarm(atMs: number): Promise<void> {
    this.#count();
    this.#seenAlarmMs = atMs;
  }

  confirm(): void {
    this.#disk.clear();
    for (const [key, value] of this.#seen) this.#disk.set(key, value);
    this.#alarmMs = this.#seenAlarmMs;
  }

  forgetUnconfirmed(): void {
    this.#seen = new Map(this.#disk);
    this.#seenAlarmMs = this.#alarmMs;
  }

  /** The alarm, if its time has come; it is then no longer set. */
  takeAlarm(atMs: number): boolean {
    if (this.#seenAlarmMs === null || this.#seenAlarmMs > atMs) return false;
    this.#seenAlarmMs = null;
    return true;
  }

  get alarmMs(): number | null {
    return this.#seenAlarmMs;
  }

  #count(): void {
    this.calls += 1;
    if (this.calls === this.failAt) throw new Error("the storage failed");
  }
}

export class GuardWorld {
  nowMs = nowMs;
  readonly storage = new MemoryStorage();
  readonly lost: LostRequest[] = [];
  readonly errors: string[] = [];
  /** What was counted, by name. */
  readonly counted = new Map<string, number>();
  /** Batches of lost requests that the ledger refuses from now on. */
  ledgerRefusals = 0;
  ledgerCalls = 0;
  #guard: GuardCore | undefined;
  #timers: { readonly atMs: number; readonly callBack: () => void }[] = [];

  static async start(): Promise<GuardWorld> {
    const world = new GuardWorld();
    await world.loseMemory();
    return world;
  }

  get guard(): GuardCore {
    if (this.#guard === undefined) throw new Error("the guard is not there");
    return this.#guard;
  }

  get timers(): number {
    return this.#timers.length;
  }

  /** Ends the guard and its timers and starts it from the storage. */
  async loseMemory(): Promise<void> {
    this.#timers = [];
    this.storage.forgetUnconfirmed();
    const store = new GuardStore(this.storage);
    this.#guard = new GuardCore(
      {
        store,
        now: () => this.nowMs,
        later: (delayMs, callBack) => void this.#timers.push({ atMs: this.nowMs + delayMs, callBack }),
        bookLost: async (rows) => {
          this.ledgerCalls += 1;
          if (this.ledgerRefusals > 0) {
            this.ledgerRefusals -= 1;
            throw new Error("the ledger is away");
          }
          this.lost.push(...rows);
        },
        logError: (event) => void this.errors.push(event),
        count: (name, by) => void this.counted.set(name, (this.counted.get(name) ?? 0) + by),
      },
      await store.load(),
    );
  }

  /** Moves the clock; timers and alarms fire at their times, and what they write is confirmed. */
  async wait(ms: number): Promise<void> {
    const untilMs = this.nowMs + ms;
    await promiseJobs();
    for (;;) {
      const next = this.#timers.toSorted((a, b) => a.atMs - b.atMs)[0];
      const alarmMs = this.storage.alarmMs ?? Number.POSITIVE_INFINITY;
      if (Math.min(next?.atMs ?? Number.POSITIVE_INFINITY, alarmMs) > untilMs) break;
      if (next !== undefined && next.atMs <= alarmMs) {
        this.nowMs = Math.max(this.nowMs, next.atMs);
        this.#timers.splice(this.#timers.indexOf(next), 1);
        next.callBack();
      } else {
        this.nowMs = Math.max(this.nowMs, alarmMs);
        this.storage.takeAlarm(this.nowMs);
        await this.guard.alarm();
      }
      await promiseJobs();
      this.storage.confirm();
    }
    this.nowMs = untilMs;
  }
}
