/**
 * What `status` shows, from what the agent's /v1/status and /metrics said at one moment and at the moment before. Pure.
 *
 * Everything that comes from outside is stripped of control characters: a reason may hold an engine's own words, and a terminal obeys them.
 */
import { z } from "zod";
import { formatTable } from "./format.ts";

/** The part of /v1/status that is shown; what else it has goes along for --json. */
export const statusSchema = z.looseObject({
  model: z.string(),
  draining: z.boolean(),
  inflight: z.number(),
  waiting: z.number(),
  /** Null where no usage is recorded. */
  usage: z
    .looseObject({ backlog: z.number(), rejected: z.number(), delivery_error: z.string().nullable() })
    .nullable()
    .default(null),
  replicas: z.array(
    z.looseObject({
      index: z.number(),
      state: z.string(),
      reason: z.string(),
      pid: z.number().nullable(),
      slots: z.number(),
      free_slots: z.number(),
      inflight: z.number(),
      served: z.number(),
      heals: z.number(),
    }),
  ),
});
export type Status = Readonly<z.infer<typeof statusSchema>>;

/** One look at an agent. */
export interface Look {
  /** On a clock that only goes forward. */
  readonly atMs: number;
  readonly status: Status;
  /** Tokens that each replica has generated, by its index; null where the metrics cannot be read. */
  readonly generated: ReadonlyMap<number, number> | null;
}

const GENERATED = /^vllm:generation_tokens_total\{[^}]*\breplica="(\d{1,4})"[^}]*\} (\d+(?:\.\d+)?(?:e\+?\d+)?)$/gm;

/** The counters of generated tokens in a text of Prometheus' format. */
export const generatedTokens = (metrics: string): ReadonlyMap<number, number> =>
  new Map([...metrics.matchAll(GENERATED)].map(([, index, tokens]) => [Number(index), Number(tokens)]));

/** Tokens a second of each replica between two looks; null where it cannot be told. A counter that fell belongs to an agent started anew. */
export const tokenRates = (before: Look | undefined, now: Look): ReadonlyMap<number, number> | null => {
  if (before === undefined || before.generated === null || now.generated === null) return null;
  const seconds = (now.atMs - before.atMs) / 1000;
  if (seconds <= 0) return null;
  return new Map(
    [...now.generated].map(([index, tokens]) => {
      const made = tokens - (before.generated?.get(index) ?? 0);
      return [index, (made < 0 ? tokens : made) / seconds];
    }),
  );
};

const sumOf = (rates: ReadonlyMap<number, number>): number => [...rates.values()].reduce((sum, rate) => sum + rate, 0);

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]+/g;
const plain = (text: string): string => text.replaceAll(CONTROLS, " ");

const rateText = (rate: number | undefined): string => (rate === undefined ? "-" : rate.toFixed(1));

const stateOf = ({ draining, replicas }: Status): string => {
  const ready = replicas.filter(({ state }) => state === "ready" || state === "busy").length;
  return `${draining ? "draining, " : ""}${ready} of ${replicas.length} replicas ready`;
};

const usageLines = ({ usage }: Status): string[] => {
  if (usage === null) return [];
  const failed = usage.delivery_error === null ? "" : `; the last delivery failed: ${plain(usage.delivery_error)}`;
  return [`usage records: ${usage.backlog} wait for the edge, ${usage.rejected} rejected${failed}`];
};

/** The lines of one look. */
export const statusLines = (url: string, look: Look, rates: ReadonlyMap<number, number> | null): string[] => {
  const { status } = look;
  return [
    `${plain(status.model)} on ${url}: ${stateOf(status)}`,
    `in flight ${status.inflight}, waiting ${status.waiting}, ${rateText(rates === null ? undefined : sumOf(rates))} tokens/s`,
    ...usageLines(status),
    "",
    ...formatTable([
      ["REPLICA", "STATE", "FREE SLOTS", "IN FLIGHT", "SERVED", "TOKENS/S", "HEALS", "PID", "REASON"],
      ...status.replicas.map((replica) => [
        String(replica.index),
        plain(replica.state),
        `${replica.free_slots}/${replica.slots}`,
        String(replica.inflight),
        String(replica.served),
        rateText(rates?.get(replica.index)),
        String(replica.heals),
        String(replica.pid ?? "-"),
        plain(replica.reason),
      ]),
    ]),
  ];
};

/** The same for a program: the agent's own status with rates added. */
export const statusJson = (url: string, look: Look, rates: ReadonlyMap<number, number> | null): string =>
  JSON.stringify({
    url,
    ...look.status,
    tokens_per_second: rates === null ? null : sumOf(rates),
    replicas: look.status.replicas.map((replica) => ({
      ...replica,
      tokens_per_second: rates?.get(replica.index) ?? null,
    })),
  });

/** Lines cut to a screen, as what a terminal draws over what was there: no flicker, nothing left of longer lines. */
export const screenOf = (lines: readonly string[], columns: number, rows: number): string => {
  const shown = lines.slice(0, rows).map((line) => line.slice(0, columns));
  return `\u001b[H${shown.map((line) => `${line}\u001b[K`).join("\r\n")}\u001b[J`;
};
