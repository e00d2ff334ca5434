/**
 * An engine of the base grammar (unbatched, untagged) without a model: each request says in its seed how it behaves (engine-pace.ts). For
 * faults and waits that a real decoder does not have on demand. Its answers are ids of the built-in model's vocabulary: `a` over and over.
 */
import { createInterface } from "node:readline";
import { paceOf } from "./engine-pace.ts";

const A = 65;
const MESSAGE_END = 1023;
/** Between two lines about a prefill. */
const PROGRESS_MS = 500;

const say = (line: string): void => void process.stdout.write(`${line}\n`);
const after = (ms: number, go: () => void): (() => void) => {
  const timer = setTimeout(go, ms);
  return () => clearTimeout(timer);
};

/** Ends the turn that runs, in answer to STOP; undefined while none runs. */
let stop: (() => void) | undefined;

const generate = (words: readonly string[]): void => {
  const maxTokens = Number(words[1]);
  const seed = words.find((word) => word.startsWith("seed="))?.slice("seed=".length);
  const promptTokens = words.at(-1)?.split(",").length ?? 0;
  const { kind, ms } = paceOf(seed === undefined ? undefined : Number(seed));
  let sent = 0;
  let cancel = (): void => {};
  const done = (finish: string): void => {
    cancel();
    stop = undefined;
    say(`DONE ${sent} ${promptTokens} 1.5 2.5 ${finish} 0 0 0 0 0 0 0 0.0 ${promptTokens} 0`);
  };
  const token = (id: number): void => {
    sent++;
    say(`T ${id}`);
  };
  const answer = (): void => {
    if (maxTokens > 1) token(A);
    token(MESSAGE_END);
    done("stop");
  };
  stop = () => done("cancel");
  if (kind === "tokens") {
    const next = (): void => {
      token(A);
      if (sent === maxTokens) done("length");
      else cancel = after(ms, next);
    };
    cancel = after(ms, next);
  } else if (kind === "silence") cancel = after(ms, answer);
  else if (kind === "computing") {
    for (const endMs = performance.now() + ms; performance.now() < endMs; );
    answer();
  } else if (kind === "hang") {
    process.stdin.pause();
    setInterval(() => {}, 1_000_000);
  } else {
    const endMs = performance.now() + ms;
    const progress = (): void => {
      const leftMs = endMs - performance.now();
      if (leftMs > 0) {
        say(`PP ${Math.floor(promptTokens * (1 - leftMs / ms))} ${promptTokens} ${PROGRESS_MS} 1.0`);
        cancel = after(Math.min(PROGRESS_MS, leftMs), progress);
      } else if (kind === "prefill") answer();
      else {
        stop = undefined;
        say("ERR the prefill came to nothing");
      }
    };
    progress();
  }
};

createInterface({ input: process.stdin }).on("line", (line) => {
  const words = line.split(" ");
  if (words[0] === "GEN") generate(words);
  // One that finds no turn is a stale one.
  else if (words[0] === "STOP") stop?.();
  else if (words[0] === "QUIT") process.exit(0);
});
process.stdin.on("end", () => process.exit(0));
say("READY 2048 stop");
