/** Samples of `bench serve` as figures. Pure. Times are ms unless the name says otherwise. */
import type { Sample } from "./load.ts";
import { quantile, rounded, type Spread, spreadOf, sum } from "./quantile.ts";

/** The samples of one number of connections; the n-th of each come from the same round. */
export interface ConnectionSamples {
  readonly connections: number;
  readonly bare: readonly Sample[];
  readonly agent: readonly Sample[];
  readonly short: readonly Sample[];
}

export interface Percentiles {
  readonly p50: number;
  readonly p99: number;
}

/** Bare decoder, agent, and what the agent adds. */
export interface Compared<T> {
  readonly bare: T;
  readonly agent: T;
  readonly added: T;
}

/** Streamed answers at one number of connections. */
export interface StreamRow {
  readonly connections: number;
  /** Turns at each of the two. */
  readonly turns: number;
  readonly bareTokensPerS: Spread;
  readonly agentTokensPerS: Spread;
  /** Events with text; fewer than tokens where a token ends no character. */
  readonly agentChunksPerS: Spread;
  /** Agent over bare decoder, of the same round. */
  readonly ratio: Spread;
  /** Median time from token to token, µs. */
  readonly tpotUs: Compared<number>;
  /** To the first token; a wait for a slot counts. */
  readonly ttftMs: Compared<Percentiles>;
  /** Share of one core that the client took while the agent served. */
  readonly clientCores: number;
}

/** Short answers in one piece. */
export interface ShortRow {
  readonly connections: number;
  readonly requests: number;
  readonly requestsPerS: Spread;
  readonly requestMs: Percentiles;
}

const perS = (count: number, { elapsedMs }: Sample): number => (count / elapsedMs) * 1000;

const percentiles = (values: readonly number[]): Percentiles => ({
  p50: rounded(quantile(values, 0.5), 2),
  p99: rounded(quantile(values, 0.99), 2),
});

const compared = (bare: number, agent: number, digits: number): Compared<number> => ({
  bare: rounded(bare, digits),
  agent: rounded(agent, digits),
  added: rounded(agent - bare, digits),
});

export const streamRow = ({ connections, bare, agent }: ConnectionSamples): StreamRow => {
  const tpotUs = (samples: readonly Sample[]) =>
    quantile(
      samples.flatMap(({ tpotMs }) => tpotMs),
      0.5,
    ) * 1000;
  const ttft = {
    bare: percentiles(bare.flatMap((one) => one.ttftMs)),
    agent: percentiles(agent.flatMap((one) => one.ttftMs)),
  };
  return {
    connections,
    turns: agent.reduce((turns, { turnMs }) => turns + turnMs.length, 0),
    bareTokensPerS: spreadOf(
      bare.map((one) => perS(one.tokens, one)),
      1,
    ),
    agentTokensPerS: spreadOf(
      agent.map((one) => perS(one.tokens, one)),
      1,
    ),
    agentChunksPerS: spreadOf(
      agent.map((one) => perS(one.chunks, one)),
      1,
    ),
    ratio: spreadOf(
      agent.map((one, round) => perS(one.tokens, one) / perS(bare[round]?.tokens ?? Number.NaN, bare[round] ?? one)),
      3,
    ),
    tpotUs: compared(tpotUs(bare), tpotUs(agent), 1),
    ttftMs: {
      ...ttft,
      added: {
        p50: rounded(ttft.agent.p50 - ttft.bare.p50, 2),
        p99: rounded(ttft.agent.p99 - ttft.bare.p99, 2),
      },
    },
    clientCores: rounded(sum(agent.map((one) => one.driverCpuMs)) / sum(agent.map((one) => one.elapsedMs)), 2),
  };
};

export const shortRow = ({ connections, short }: ConnectionSamples): ShortRow => ({
  connections,
  requests: short.reduce((requests, { turnMs }) => requests + turnMs.length, 0),
  requestsPerS: spreadOf(
    short.map((one) => perS(one.turnMs.length, one)),
    1,
  ),
  requestMs: percentiles(short.flatMap(({ turnMs }) => turnMs)),
});
