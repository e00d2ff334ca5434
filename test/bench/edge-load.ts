/**
 * What the edge's bench and its two helper processes say to each other: the load, what came of it, and the stamp on every event by which the
 * client knows when it was sent. Pure but for the clock that the stamps are read from.
 */
import { z } from "zod";

/** Bodies of the requests: what each must get. */
export const bodyKinds = {
  /** Some hundred bytes; a stream. */
  small: { status: 200 },
  /** Just under the edge's bound; a stream. */
  large: { status: 200 },
  /** No JSON; refused by the edge. */
  malformed: { status: 400 },
} as const;
export type BodyKind = keyof typeof bodyKinds;

export const edgeLoadSchema = z.object({
  /** Where requests go, path and all. */
  url: z.string(),
  /** The API key; it comes over the channel between processes, never on a command line. */
  key: z.string(),
  connections: z.number().int().min(1),
  /** Each connection sends request after request until so many ms are over; 0 is one each. */
  forMs: z.number().min(0),
  /** Between an answer's end and the next request of its connection: enough of it, and no request meets what the last one left to do. */
  pauseMs: z.number().min(0),
  body: z.enum(["small", "large", "malformed"]),
  /** Of each stream. */
  events: z.number().int().min(1),
  /** Between two events of a stream; 0 is as fast as they go, each in a write of its own. */
  paceMs: z.number().min(0),
});
export type EdgeLoad = z.infer<typeof edgeLoadSchema>;

const edgeSampleSchema = z.object({
  /** Answers that came, all of them whole and as they should be. */
  requests: z.number(),
  /** From the request's first byte to the first byte of the first event, ms; one for each stream. */
  firstEventMs: z.array(z.number()),
  /** From the moment at which the upstream wrote an event to its arrival, ms: quantiles over all events but the first of each stream. */
  eventDelayMs: z.object({ p50: z.number(), p99: z.number() }).nullable(),
  elapsedMs: z.number(),
});
export type EdgeSample = z.infer<typeof edgeSampleSchema>;

export const clientAnswerSchema = z.union([
  z.object({ ready: z.literal(true) }),
  z.object({ sample: edgeSampleSchema }),
  z.object({ fault: z.string() }),
]);
export type ClientAnswer = z.infer<typeof clientAnswerSchema>;

export const upstreamAnswerSchema = z.object({ url: z.string() });

/** The system's monotonic clock, µs: the same for all processes of a machine. */
export const clockUs = (): number => Number(process.hrtime.bigint() / 1000n);

/** As long as an event of one token usually is. */
const PADDING = "x".repeat(150);

/** One event, stamped. */
export const eventAt = (atUs: number): string => `data: {"t":${atUs},"pad":"${PADDING}"}\n\n`;

/** Where its stamp stands in the text of an event. */
export const stampPattern = /"t":(\d+),/g;

/** What the upstream reads of a body; everything else in it is there to be looked at by the edge. */
export const orderSchema = z.object({ metadata: z.object({ events: z.number(), paceMs: z.number() }) });

const LARGE_BODY_BYTES = 4 * 1024 * 1024 - 1024;

/** The body of each request of a load. */
export const bodyOf = ({ body, events, paceMs }: Pick<EdgeLoad, "body" | "events" | "paceMs">): Buffer => {
  if (body === "malformed")
    return Buffer.from('{"model":"m","messages":[{"role":"user","content":"Count from 1 to 60."}');
  const content = body === "large" ? "word ".repeat(LARGE_BODY_BYTES / 5) : "Count from 1 to 60.";
  return Buffer.from(
    JSON.stringify({
      model: "m",
      messages: [
        { role: "system", content: "You are a helpful assistant." },
        { role: "user", content },
      ],
      max_tokens: events,
      stream: true,
      metadata: { events, paceMs },
    }),
  );
};
