/**
 * Whether the books balance: what the wire logs say that the engines did, what the agents logged, what the edge booked, and what clients saw
 * finished. Pure.
 *
 * The rule for an agent that was killed is the contract's: a turn that a client saw finished is booked, once. One that no client saw
 * finished may lack its record: each slot holds at most one turn that was written to its engine and not yet to the spool. Everywhere
 * else each turn has exactly one record, with its own figures. One exception: a DONE that still came when its replica had been given up
 * is in the wire log, but nobody waited for it any more; that turn's record has no figures.
 */
import type { DoneStatistics, UsageRecord } from "@lockgate/shared-types";
import { type Check, countCheck, noneCheck } from "./check.ts";
import type { SeenTurn } from "./judge-answers.ts";
import type { WireDigest, WireTurn } from "./wire-turns.ts";

/** A `turn_ended` line of an agent's log: the name of a turn on the wire beside that of its request. */
export interface LoggedTurn {
  readonly request: string;
  /** -1: it never came to a replica. */
  readonly turn: number;
  readonly completionTokens: number;
  readonly generated: number | null;
}

/** A replica was given up; what it still said is nobody's. */
export interface GivenUp {
  /** Null: all of them. */
  readonly replica: number | null;
  /** Unix time, ms. */
  readonly atMs: number;
}

/** One agent process, from its start to its end. Its records carry its `id`. */
export interface LifeBooks {
  readonly id: string;
  /** Killed: it had no time to write what it knew. */
  readonly killed: boolean;
  /** Slots over all replicas. */
  readonly slots: number;
  readonly wire: WireDigest;
  readonly logged: readonly LoggedTurn[];
  readonly givenUp: readonly GivenUp[];
}

export interface Books {
  readonly lives: readonly LifeBooks[];
  /** As the edge booked them. */
  readonly records: readonly UsageRecord[];
  /** Deliveries of a record that was booked already. */
  readonly again: readonly UsageRecord[];
  readonly seen: readonly SeenTurn[];
}

export interface Balance {
  readonly checks: readonly Check[];
  readonly figures: Readonly<Record<string, number>>;
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

/** What a DONE line and its record have in common. */
const figuresOfDone = (replica: number, done: DoneStatistics): string =>
  [
    replica,
    done.finish,
    done.generated,
    done.promptTokens,
    done.promptRead,
    done.reused,
    done.promptMs,
    done.decodeMs,
  ].join(" ");

const figuresOfRecord = ({ replica, engine }: UsageRecord): string | undefined =>
  engine === null
    ? undefined
    : [
        replica,
        engine.finish,
        engine.generated_tokens,
        engine.prompt_tokens,
        engine.prompt_read_tokens,
        engine.reused_tokens,
        engine.prompt_ms,
        engine.decode_ms,
      ].join(" ");

/** What is left of `from` once `taken` were taken away, one for one. */
const without = (from: readonly string[], taken: readonly string[]): readonly string[] => {
  const counts = new Map<string, number>();
  for (const item of taken) counts.set(item, (counts.get(item) ?? 0) + 1);
  return from.filter((item) => {
    const count = counts.get(item) ?? 0;
    counts.set(item, count - 1);
    return count <= 0;
  });
};

interface LifeBalance {
  /** DONE lines that no record has, but for late ones; the tokens of all of them; and records that no DONE line has. */
  readonly unbooked: readonly string[];
  readonly late: number;
  readonly unbookedTokens: number;
  readonly unfounded: readonly string[];
  /** Turns without a DONE that have no record either. */
  readonly vanished: number;
  readonly disagreeing: readonly string[];
}

/** Whether a DONE came when its replica had been given up already: a turn that began before runs on no successor. */
const isLate = ({ replica, genAtMs, doneAtMs }: WireTurn, givenUp: readonly GivenUp[]): boolean =>
  givenUp.some((lost) => (lost.replica ?? replica) === replica && genAtMs <= lost.atMs && lost.atMs <= doneAtMs);

const balanceLife = ({ id, wire, logged, givenUp }: LifeBooks, records: readonly UsageRecord[]): LifeBalance => {
  const done = wire.turns.flatMap(({ replica, done }) => (done === null ? [] : [figuresOfDone(replica, done)]));
  const booked = records.flatMap((record) => figuresOfRecord(record) ?? []);
  const told = (what: string) => (figures: string) => `${id}: ${what} ${figures}`;
  const byReplica = (items: readonly { readonly replica: number | null }[], replica: number) =>
    items.filter((item) => item.replica === replica).length;
  const endless = wire.turns.filter((turn) => turn.done === null);
  const silent = records.filter(({ engine }) => engine === null);
  const replicas = [...new Set(endless.map(({ replica }) => replica))];
  const unbooked = without(done, booked);
  const tokensOf = new Map(
    wire.turns.flatMap(({ replica, done }) => (done === null ? [] : [[figuresOfDone(replica, done), done.generated]])),
  );
  const late = new Set(
    wire.turns.flatMap((turn) =>
      turn.done !== null && isLate(turn, givenUp) ? [figuresOfDone(turn.replica, turn.done)] : [],
    ),
  );
  return {
    unbooked: unbooked.filter((figures) => !late.has(figures)).map(told("DONE without a record:")),
    late: unbooked.filter((figures) => late.has(figures)).length,
    unbookedTokens: sum(unbooked.map((figures) => tokensOf.get(figures) ?? 0)),
    unfounded: without(booked, done).map(told("record without a DONE:")),
    vanished: sum(replicas.map((replica) => Math.max(0, byReplica(endless, replica) - byReplica(silent, replica)))),
    disagreeing: disagreements(id, wire.turns, logged, records, givenUp),
  };
};

/** Turns of which log, wire and last record do not tell the same. */
const disagreements = (
  id: string,
  turns: readonly WireTurn[],
  logged: readonly LoggedTurn[],
  records: readonly UsageRecord[],
  givenUp: readonly GivenUp[],
): string[] => {
  const byTurn = new Map(turns.map((turn) => [turn.turn, turn]));
  const byRequest = new Map<string, UsageRecord>();
  const unplaced = new Set<string>();
  for (const record of records) {
    // A place that was not found again is told in a record of its own, after that of the last place.
    if (record.replica === null) {
      unplaced.add(record.request_id);
      continue;
    }
    const other = byRequest.get(record.request_id);
    if (other === undefined || other.attempt < record.attempt) byRequest.set(record.request_id, record);
  }
  return logged.flatMap(({ request, turn, completionTokens, generated }) => {
    const record = byRequest.get(request);
    if (turn === -1) {
      if (record !== undefined) return [`${id}: ${request} never ran and has a record of a replica`];
      return unplaced.has(request) ? [] : [`${id}: ${request} never ran and has no record`];
    }
    if (record === undefined) return [`${id}: turn ${turn} of ${request} was logged and has no record`];
    const wireTurn = byTurn.get(turn);
    const onTheWire = wireTurn?.done?.generated ?? null;
    const isNobodys = generated === null && wireTurn !== undefined && isLate(wireTurn, givenUp);
    const said = [generated, record.engine?.generated_tokens ?? null, isNobodys ? null : onTheWire];
    const agrees = said.every((count) => count === generated) && record.completion_tokens === completionTokens;
    return agrees
      ? []
      : [
          `${id}: turn ${turn} of ${request} generated ${said.join(", ")} by log, record and wire; ` +
            `consumed ${completionTokens} by log, ${record.completion_tokens} by record`,
        ];
  });
};

/** Balances everything; a check that fails says what differs. */
export const balanceBooks = ({ lives, records, again, seen }: Books): Balance => {
  const byTurnId = new Map(records.map((record) => [record.turn_id, record]));
  const ofLife = new Map(lives.map(({ id }) => [id, [] as UsageRecord[]]));
  for (const record of records) ofLife.get(record.agent_id)?.push(record);
  const balances = lives.map((life) => ({ life, balance: balanceLife(life, ofLife.get(life.id) ?? []) }));
  const clean = balances.filter(({ life }) => !life.killed);
  const killed = balances.filter(({ life }) => life.killed);
  const missing = ({ balance }: (typeof balances)[number]) => balance.unbooked.length + balance.vanished;
  const turns = lives.flatMap(({ wire }) => wire.turns);

  const finished = new Map<string, UsageRecord[]>();
  for (const record of records) {
    if (record.outcome !== "finished") continue;
    finished.set(record.request_id, [...(finished.get(record.request_id) ?? []), record]);
  }
  const lost = seen.flatMap(({ requestId, completionTokens }) => {
    const own = finished.get(requestId) ?? [];
    if (own.length !== 1) return [`${requestId} was seen finished and has ${own.length} finished records`];
    const booked = own[0]?.completion_tokens;
    return completionTokens === null || booked === completionTokens
      ? []
      : [`${requestId}: ${booked} tokens booked, ${completionTokens} seen`];
  });

  const attempts = new Map<string, number[]>();
  for (const { request_id, attempt } of records)
    attempts.set(request_id, [...(attempts.get(request_id) ?? []), attempt]);
  const gaps = [...attempts].filter(([, own]) => Math.max(...own) !== own.length).map(([id]) => id);

  const doneTokens = sum(turns.map(({ done }) => done?.generated ?? 0));
  const bookedTokens = sum(records.map(({ engine }) => engine?.generated_tokens ?? 0));
  const unbookedTokens = sum(balances.map(({ balance }) => balance.unbookedTokens));

  return {
    checks: [
      noneCheck(
        "records booked twice",
        duplicates(records.map(({ turn_id }) => turn_id)).concat(
          again
            .filter((record) => JSON.stringify(record) !== JSON.stringify(byTurnId.get(record.turn_id)))
            .map(({ turn_id }) => `${turn_id} came again with other figures`),
        ),
      ),
      noneCheck(
        "records of no known agent",
        records
          .filter(({ agent_id }) => !ofLife.has(agent_id))
          .map(({ turn_id, agent_id }) => `${turn_id} of ${agent_id}`),
      ),
      noneCheck(
        "records without their DONE line",
        balances.flatMap(({ balance }) => balance.unfounded),
      ),
      noneCheck(
        "DONE lines without a record",
        clean.flatMap(({ balance }) => balance.unbooked),
      ),
      countCheck("turns without DONE and record", sum(clean.map(({ balance }) => balance.vanished)), 0),
      countCheck(
        "turns that a killed agent left unbooked, the most of one",
        Math.max(0, ...killed.map(missing)),
        Math.max(0, ...lives.map(({ slots }) => slots)),
        killed.flatMap(({ balance }) => balance.unbooked),
        true,
      ),
      countCheck("tokens in records = in DONE lines", bookedTokens, doneTokens - unbookedTokens),
      noneCheck("turns seen finished, not booked once as seen", lost),
      noneCheck(
        "turns of which log, wire and record differ",
        balances.flatMap(({ balance }) => balance.disagreeing),
      ),
      noneCheck("requests with a missing attempt", gaps),
      noneCheck(
        "turns that consumed more than was generated",
        records
          .filter(({ engine, completion_tokens }) => engine !== null && completion_tokens > engine.generated_tokens)
          .map(({ turn_id }) => turn_id),
      ),
      noneCheck(
        "turns with other token lines than their DONE says",
        turns
          .filter(({ done, tokens }) => done !== null && done.generated !== tokens)
          .map(({ turn, done, tokens }) => `turn ${turn}: ${tokens} lines, DONE ${done?.generated}`),
      ),
      noneCheck(
        "turns that ended twice",
        turns.filter(({ ends }) => ends > 1).map(({ turn, replica }) => `turn ${turn} on replica ${replica}`),
      ),
      countCheck("lines of turns that did not run", sum(lives.map(({ wire }) => wire.strayLines)), 0),
    ],
    figures: {
      lives: lives.length,
      killedLives: killed.length,
      turnsOnTheWire: turns.length,
      doneLines: turns.filter(({ done }) => done !== null).length,
      records: records.length,
      recordsSentAgain: again.length,
      turnsSeenFinished: seen.length,
      movedTurns: records.filter(({ attempt }) => attempt > 1).length,
      lateDoneLines: sum(balances.map(({ balance }) => balance.late)),
      leftUnbookedByKilledAgents: sum(killed.map(missing)),
      doneTokens,
      bookedTokens,
      consumedTokens: sum(records.map(({ completion_tokens }) => completion_tokens)),
    },
  };
};

const duplicates = (ids: readonly string[]): string[] => {
  const known = new Set<string>();
  return ids.filter((id) => {
    const isKnown = known.has(id);
    known.add(id);
    return isKnown;
  });
};
