/**
 * What the bench and its driver processes say to each other, and the closed loop that every driver runs: so many callers, each with its
 * next turn as soon as its last one ended. Checking answers happens after the clock has stopped.
 */
import { z } from "zod";

/** One measurement: `callers` at once, `turns` in all. */
export const loadSchema = z.object({ callers: z.number(), turns: z.number() });
export type Load = z.infer<typeof loadSchema>;

/** Where a driver over HTTP sends its load; the key comes over the channel between processes, never on a command line. */
export const targetSchema = z.object({ url: z.string(), key: z.string(), model: z.string() });
export type Target = z.infer<typeof targetSchema>;

export const driverRequestSchema = z.object({ load: loadSchema, target: targetSchema.optional() });
export type DriverRequest = z.infer<typeof driverRequestSchema>;

const sampleSchema = z.object({
  /** From the start of each turn to its first token, the wait for a slot included, ms. */
  ttftMs: z.array(z.number()),
  /** Pieces of text that came, over all turns; the end token has none. */
  chunks: z.number(),
  /** From the start of the first turn to the end of the last, ms. */
  elapsedMs: z.number(),
  /** CPU time of the driver's own process meanwhile, ms. */
  driverCpuMs: z.number(),
});
export type Sample = z.infer<typeof sampleSchema>;

export const driverAnswerSchema = z.union([
  z.object({ ready: z.literal(true) }),
  z.object({ sample: sampleSchema }),
  z.object({ fault: z.string() }),
]);
export type DriverAnswer = z.infer<typeof driverAnswerSchema>;

export interface TurnTimes {
  readonly ttftMs: number;
  /** Checks the whole answer and returns its chunks; throws where it is not the expected one. Called when the clock has stopped. */
  readonly check: () => number;
}

/** Runs the load; `turn` gets the number of its caller, from 0 on. */
export const runLoad = async (load: Load, turn: (caller: number) => Promise<TurnTimes>): Promise<Sample> => {
  const done: TurnTimes[] = [];
  let left = load.turns;
  const caller = async (index: number): Promise<void> => {
    while (left > 0) {
      left--;
      done.push(await turn(index));
    }
  };
  const cpuBefore = process.cpuUsage();
  const startMs = performance.now();
  await Promise.all(Array.from({ length: load.callers }, (_, index) => caller(index)));
  const elapsedMs = performance.now() - startMs;
  const { user, system } = process.cpuUsage(cpuBefore);
  return {
    ttftMs: done.map(({ ttftMs }) => ttftMs),
    chunks: done.reduce((sum, { check }) => sum + check(), 0),
    elapsedMs,
    driverCpuMs: (user + system) / 1000,
  };
};

/** The life of a driver process: says that it is ready, answers one request after another, ends with the bench. */
export const serveLoads = (run: (request: DriverRequest) => Promise<Sample>): void => {
  // A bench that is interrupted while this one starts may be gone at any point of it: a failed send is the same as a disconnect.
  const gone = () => process.exit(0);
  if (!process.connected) gone();
  const answer = (message: DriverAnswer) =>
    process.send?.(message, undefined, {}, (error) => {
      if (error !== null) gone();
    });
  process.once("disconnect", gone);
  // Ctrl-C reaches the whole foreground group; the bench ends its drivers in order.
  process.on("SIGINT", () => undefined);
  process.on("message", (message) => {
    run(driverRequestSchema.parse(message)).then(
      (sample) => answer({ sample }),
      (error: unknown) => answer({ fault: error instanceof Error ? error.message : String(error) }),
    );
  });
  answer({ ready: true });
};
