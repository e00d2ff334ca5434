/**
 * An engine of the base grammar with turn tags, as a real process: `node scripted-engine.ts <manner>`. Tokens count up from 1; a turn has as
 * many as GEN asks for.
 *
 * Manners: `plain` answers at once; `hold` says one token and then nothing until STOP; `deaf` never reads its stdin; `flood` says all its
 * tokens in one go and tells on stderr when the pipe has taken them.
 */
import { writeSync } from "node:fs";
import { createInterface } from "node:readline";

const [, , manner = "plain"] = process.argv;
const stdoutFd = 1;
/** Tokens in one write of a flood. */
const FLOOD_TOKENS = 1_000;

const say = (line: string): void => void process.stdout.write(`${line}\n`);
let running: { readonly tag: string; readonly promptTokens: number; tokens: number } | undefined;

const done = (finish: string): void => {
  if (running === undefined) return;
  const { tag, promptTokens, tokens } = running;
  running = undefined;
  say(`DONE ${tokens} ${promptTokens} 1.0 1.0 ${finish} 0 0 0 0 0 0 0 0.0 ${promptTokens} 0${tag}`);
};

const flood = (maxTokens: number, tag: string): void => {
  for (let from = 1; from <= maxTokens; from += FLOOD_TOKENS) {
    const ids = Array.from({ length: Math.min(FLOOD_TOKENS, maxTokens - from + 1) }, (_, index) => from + index);
    writeWhole(Buffer.from(ids.map((id) => `T ${id}${tag}\n`).join("")));
  }
  process.stderr.write("all tokens are written\n");
};

/** Writes with the process held still while the pipe is full, as an engine without a loop of its own does. */
const writeWhole = (bytes: Buffer): void => {
  for (let at = 0; at < bytes.length; ) {
    try {
      at += writeSync(stdoutFd, bytes, at);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EAGAIN") throw error;
    }
  }
};

const take = (line: string): void => {
  const words = line.split(" ");
  const tag = / turn=\d+/.exec(line)?.[0] ?? "";
  if (words[0] === "QUIT") process.exit(0);
  if (words[0] === "STOP" && tag === running?.tag) done("cancel");
  if (words[0] !== "GEN") return;
  const maxTokens = Number(words[1]);
  running = { tag, promptTokens: (words.at(-1) ?? "").split(",").length, tokens: manner === "hold" ? 1 : maxTokens };
  if (manner === "hold") {
    say(`T 1${tag}`);
    return;
  }
  if (manner === "flood") flood(maxTokens, tag);
  else for (let id = 1; id <= maxTokens; id++) say(`T ${id}${tag}`);
  done("length");
};

say("READY 4096 stop turns");
if (manner === "deaf") setInterval(() => {}, 60_000);
else createInterface({ input: process.stdin }).on("line", take);
