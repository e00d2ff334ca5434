/**
 * Finds an engine that hangs long before its silence limit: a turn runs, no line comes, and its processes use no CPU time. A stopped
 * process, a dead driver call and a lost wake-up look like this; a long prefill does not, it computes or waits busily.
 *
 * Decides nothing but when: the replica poisons the engine. Off where CPU time cannot be read (see process-cpu.ts).
 */
import type { Clock } from "./clock.ts";
import type { Engine } from "./engine.ts";

/** Time without a line and without CPU time after which a running engine counts as hung. */
export const DEFAULT_STALL_MS = 30_000;

/** Looks in one stall time: it is noticed at most a quarter late. */
const LOOKS_PER_STALL = 4;

/** A prefill chunk may take so many times the last one's time; the same patience as the silence limit has. */
const CHUNK_PATIENCE = 3;

export interface StallSight {
  readonly nowMs: number;
  /** A turn runs on any lane. */
  readonly running: boolean;
  /** When the last line of any lane came. */
  readonly lastLineMs: number;
  /** Longest of the last prefill chunks of the running turns. */
  readonly lastChunkMs: number;
  /** CPU time that its processes have used, ms; undefined where it cannot be read. */
  readonly cpuMs: number | undefined;
}

/** Since when nothing has moved. */
export interface StallTrack {
  readonly sinceMs: number;
  readonly cpuMs: number | undefined;
}

/** What the next look makes of the last: when it last moved, and whether it hangs. Pure. */
export const judgeStall = (
  track: StallTrack | undefined,
  sight: StallSight,
  stallMs: number,
): { readonly track: StallTrack; readonly stalled: boolean } => {
  const { nowMs, running, lastLineMs, lastChunkMs, cpuMs } = sight;
  const stands =
    track !== undefined && running && cpuMs !== undefined && cpuMs === track.cpuMs && lastLineMs <= track.sinceMs;
  if (!stands) return { track: { sinceMs: nowMs, cpuMs }, stalled: false };
  return { track, stalled: nowMs - track.sinceMs >= Math.max(stallMs, CHUNK_PATIENCE * lastChunkMs) };
};

export interface StallWatch {
  readonly stallMs: number;
  /** CPU time of a process and of those it started, ms. */
  readonly cpuTimeMs: (pid: number) => number | undefined;
}

/** Looks at a READY engine until `cancel`; calls `onStall` once when it hangs. */
export const watchForStall = (
  engine: Engine,
  clock: Clock,
  { stallMs, cpuTimeMs }: StallWatch,
  onStall: (reason: string) => void,
): { cancel(): void } => {
  let track: StallTrack | undefined;
  const { pid } = engine.process;
  const look = () => {
    const running = engine.lanes.filter((lane) => lane.running);
    const verdict = judgeStall(
      track,
      {
        nowMs: clock.now(),
        running: running.length > 0,
        lastLineMs: Math.max(...engine.lanes.map((lane) => lane.lastLineMs)),
        lastChunkMs: Math.max(0, ...running.map((lane) => lane.lastChunkMs)),
        // An idle engine is not worth a read of /proc.
        cpuMs: running.length > 0 && pid !== undefined ? cpuTimeMs(pid) : undefined,
      },
      stallMs,
    );
    track = verdict.track;
    if (verdict.stalled) onStall(`no line and no CPU time for ${Math.round(clock.now() - track.sinceMs)} ms`);
    else timer = clock.after(stallMs / LOOKS_PER_STALL, look);
  };
  let timer = clock.after(stallMs / LOOKS_PER_STALL, look);
  return { cancel: () => timer.cancel() };
};
