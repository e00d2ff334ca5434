/**
 * Driver processes as a benchmark sees them: started by a command of this package, told a load, giving back its sample. One over HTTP makes
 * the load; decoders of their own are the floor.
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import { entryPath } from "../host/host-command.ts";
import { type BenchChildren, within } from "./children.ts";
import { type DriverRequest, driverAnswerSchema, type Sample } from "./load.ts";

/** Hidden commands of the CLI; the decoder's takes the words of `replica-host`. */
export const HTTP_LOAD_COMMAND = "bench-http-load";
export const DECODER_LOAD_COMMAND = "bench-decoder-load";

/** A start that takes longer has failed; a big model is read from disk. */
export const START_TIMEOUT_MS = 900_000;
/** One measurement of a big model on a slow machine with many callers. */
const SAMPLE_TIMEOUT_MS = 3_600_000;

/** A process that makes load when told to. */
export interface Driver {
  readonly pid: number;
  run(request: DriverRequest): Promise<Sample>;
}

/** Starts a driver with these words on its command line; it ends with the others. */
export const startDriver = async (
  children: BenchChildren,
  words: readonly string[],
  env: NodeJS.ProcessEnv = process.env,
): Promise<Driver> => {
  const { child, died } = children.start(
    () => fork(entryPath, [...words], { env }),
    (driver) => driver.disconnect(),
  );
  const answer = async (what: string, ms: number) => {
    const [message] = (await within(Promise.race([once(child, "message"), died]), ms, what)) as [unknown];
    return driverAnswerSchema.parse(message);
  };
  const started = await answer(`starting ${words[0]}`, START_TIMEOUT_MS);
  if ("fault" in started) throw new Error(started.fault);
  return {
    pid: child.pid as number,
    run: async (request) => {
      const answered = answer("a measurement", SAMPLE_TIMEOUT_MS);
      child.send(request);
      const got = await answered;
      if ("sample" in got) return got.sample;
      throw new Error("fault" in got ? got.fault : `${words[0]} was ready twice`);
    },
  };
};
