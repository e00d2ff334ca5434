/**
 * The requests of a key whose usage is not known yet, with what is reserved for each. Pure; `nowMs` is passed in.
 *
 * A request is *running* from its admission to the end of its stream, then *ended* until the usage record is there. One whose record
 * does not come in time is lost. It knows no limits and no windows.
 */

/** From the end of a request to the moment at which its record counts as lost. */
export const SETTLE_WAIT_MS = 600_000;
/** Above it the oldest ended request is closed as lost before its time. */
export const MAX_PENDING_REQUESTS = 10_000;
/** Above it nothing is admitted: so many requests run, or the ledger takes no rows. */
export const MAX_OPEN_REQUESTS = 12_000;
/** Turns that are told apart within one request; an agent places a turn a few times at most. */
export const MAX_TURNS_OF_REQUEST = 64;

/** One open request; as it is stored, but for its lease. */
export interface Reservation {
  readonly requestId: string;
  readonly startedAtMs: number;
  readonly estimatedTokens: number;
  /** Where the token window holds tokens for it, and how many; null where tokens a minute are not limited. */
  readonly tokenSlot: number | null;
  readonly slotTokens: number;
  /** Whose record is waited for; null until its release tells. */
  readonly agent: string | null;
  /** Null while it runs. */
  readonly endedAtMs: number | null;
  /** Turns booked so far, `<agent>/<turn id>`, and their tokens: a record may be told twice. */
  readonly turns: readonly string[];
  readonly bookedTokens: number;
  /** Agents whose records say that they have done with it: where one was given up for another there are two. */
  readonly endedBy: readonly string[];
}

/** Tokens held against the month's budget: none any more once a record has told how many they were. */
const reservedOf = ({ estimatedTokens, endedBy }: Reservation): number => (endedBy.length > 0 ? 0 : estimatedTokens);

/** Whether usage is known, so that nothing is lost when no more is heard. */
export const isSettled = ({ agent, endedBy }: Reservation): boolean =>
  agent === null ? endedBy.length > 0 : endedBy.includes(agent);

export class Reservations {
  readonly #running = new Map<string, Reservation>();
  /** In the order in which they ended. */
  readonly #ended = new Map<string, Reservation>();
  #reservedTokens = 0;

  constructor(stored: readonly Reservation[] = []) {
    for (const reservation of stored.toSorted((a, b) => (a.endedAtMs ?? 0) - (b.endedAtMs ?? 0))) this.add(reservation);
  }

  get count(): number {
    return this.#running.size + this.#ended.size;
  }

  /** What all together hold against the month's budget. */
  get reservedTokens(): number {
    return this.#reservedTokens;
  }

  get(requestId: string): Reservation | undefined {
    return this.#running.get(requestId) ?? this.#ended.get(requestId);
  }

  *all(): Generator<Reservation> {
    yield* this.#ended.values();
    yield* this.#running.values();
  }

  /** Adds one, or puts it in the place of an older state of it. */
  add(reservation: Reservation): void {
    this.remove(reservation.requestId);
    (reservation.endedAtMs === null ? this.#running : this.#ended).set(reservation.requestId, reservation);
    this.#reservedTokens += reservedOf(reservation);
  }

  remove(requestId: string): Reservation | undefined {
    const reservation = this.get(requestId);
    if (reservation === undefined) return undefined;
    this.#running.delete(requestId);
    this.#ended.delete(requestId);
    this.#reservedTokens -= reservedOf(reservation);
    return reservation;
  }

  /** When the first ended one is lost; undefined without any. */
  firstDueMs(lostAfterMs: number): number | undefined {
    const first = this.#ended.values().next().value;
    if (first === undefined) return undefined;
    return this.count > MAX_PENDING_REQUESTS ? 0 : (first.endedAtMs ?? 0) + lostAfterMs;
  }

  /** The ended ones whose time is over, and the oldest above MAX_PENDING_REQUESTS; `atMost` of them, oldest first. Removes none. */
  due(nowMs: number, lostAfterMs: number, atMost: number): Reservation[] {
    const due: Reservation[] = [];
    let tooMany = this.count - MAX_PENDING_REQUESTS;
    for (const reservation of this.#ended.values()) {
      const isOver = (reservation.endedAtMs ?? 0) + lostAfterMs <= nowMs;
      if ((!isOver && tooMany <= 0) || due.length >= atMost) break;
      due.push(reservation);
      tooMany -= 1;
    }
    return due;
  }
}
