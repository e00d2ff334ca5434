/**
 * `gpu-agent status`: a running agent's replicas, queue and tokens a second; in a terminal a view that is drawn again each second until
 * Ctrl-C, elsewhere one snapshot. It only asks; the agent does not know who looks.
 */
import { setTimeout as pause } from "node:timers/promises";
import type { Command } from "commander";
import { exitCodes } from "../config/exit-codes.ts";
import { LOCAL_KEY_VARIABLE } from "../config/secrets.ts";
import { serveOptions, url } from "../config/serve-options.ts";
import { addAction, jsonOption } from "./command-options.ts";
import { type CliContext, failureText, failWith } from "./context.ts";
import {
  generatedTokens,
  type Look,
  screenOf,
  statusJson,
  statusLines,
  statusSchema,
  tokenRates,
} from "./status-view.ts";

/** Between two looks: how often a terminal is drawn, and what a snapshot's tokens/s are measured over. */
const LOOK_INTERVAL_MS = 1_000;
/** How long the agent has to answer one question. */
const ANSWER_LIMIT_MS = 5_000;
/** Largest answer that is read; a scrape of 16 replicas has some 100 KiB. */
const MAX_ANSWER_BYTES = 8 * 1024 * 1024;

/** For a terminal that does not know its size and says 0. */
const FALLBACK_COLUMNS = 80;
const FALLBACK_ROWS = 24;

/** xterm's alternate screen without a cursor, and back. */
const ENTER_SCREEN = "\u001b[?1049h\u001b[?25l";
const LEAVE_SCREEN = "\u001b[?25h\u001b[?1049l";

const options = {
  url: url({
    name: "url",
    help: "the agent",
    fallback: `http://${serveOptions.host.fallback}:${serveOptions.port.fallback}`,
  }),
  json: jsonOption,
};

const EXAMPLES = `
Examples:
  gpu-agent status
  gpu-agent status --url http://127.0.0.1:8788 --json

Asks with the agent's local key, from the variable ${LOCAL_KEY_VARIABLE}. Ctrl-C ends the view.`;

/** Why a look failed, and the exit code where it is the only one. */
class LookFailed extends Error {
  readonly exitCode: number;
  constructor(exitCode: number, message: string) {
    super(message);
    this.exitCode = exitCode;
  }
}

type Ask = (path: string) => Promise<Response>;

const askWith =
  (agent: string, key: string, signal: AbortSignal): Ask =>
  async (path) => {
    try {
      return await fetch(`${agent.replace(/\/$/, "")}${path}`, {
        headers: { authorization: `Bearer ${key}` },
        redirect: "error",
        signal: AbortSignal.any([signal, AbortSignal.timeout(ANSWER_LIMIT_MS)]),
      });
    } catch (error) {
      const reason = failureText(error as Error);
      throw new LookFailed(exitCodes.unavailable, `${agent} does not answer (${reason}); is the agent running?`);
    }
  };

const bodyOf = async (response: Response): Promise<string> => {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of response.body ?? []) {
    bytes += part.length;
    if (bytes > MAX_ANSWER_BYTES)
      throw new LookFailed(exitCodes.unavailable, "the answer is too long to be an agent's");
    parts.push(part);
  }
  return Buffer.concat(parts).toString("utf8");
};

const lookAt = async (agent: string, ask: Ask): Promise<Look> => {
  const response = await ask("/v1/status");
  if (response.status === 401) {
    throw new LookFailed(exitCodes.config, `${agent} does not take the key in ${LOCAL_KEY_VARIABLE}`);
  }
  const text = await bodyOf(response);
  const status = statusSchema.safeParse(response.ok ? parseJson(text) : undefined);
  if (!status.success) throw new LookFailed(exitCodes.unavailable, `${agent} answers, but not as an agent does`);
  const metrics = await ask("/metrics");
  const scraped = await bodyOf(metrics);
  return {
    atMs: performance.now(),
    status: status.data,
    // An agent that shows its metrics on a port of their own has none here.
    generated: metrics.ok ? generatedTokens(scraped) : null,
  };
};

const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};

/** Ends quietly when the signal comes first. */
const untilNextLook = (signal: AbortSignal): Promise<void> =>
  pause(LOOK_INTERVAL_MS, undefined, { signal }).catch(() => {});

const snapshot = async (
  context: CliContext,
  agent: string,
  json: boolean,
  ask: Ask,
  signal: AbortSignal,
): Promise<number> => {
  try {
    const first = await lookAt(agent, ask);
    if (first.generated !== null) await untilNextLook(signal);
    const look = first.generated === null ? first : await lookAt(agent, ask);
    const rates = tokenRates(first, look);
    context.writeOut(`${json ? statusJson(agent, look, rates) : statusLines(agent, look, rates).join("\n")}\n`);
    return exitCodes.ok;
  } catch (error) {
    if (signal.aborted) return exitCodes.ok;
    if (error instanceof LookFailed) return failWith(context, error.exitCode, error.message);
    throw error;
  }
};

const view = async (context: CliContext, agent: string, ask: Ask, signal: AbortSignal): Promise<number> => {
  const draw = (lines: readonly string[]) =>
    context.writeOut(screenOf(lines, process.stdout.columns || FALLBACK_COLUMNS, process.stdout.rows || FALLBACK_ROWS));
  context.writeOut(ENTER_SCREEN);
  try {
    let before: Look | undefined;
    while (!signal.aborted) {
      try {
        const look = await lookAt(agent, ask);
        draw([...statusLines(agent, look, tokenRates(before, look)), "", "Ctrl-C ends this view, not the agent."]);
        before = look;
      } catch (error) {
        if (!(error instanceof LookFailed)) throw error;
        draw([error.message, "", "Looking again each second; Ctrl-C ends this view."]);
        before = undefined;
      }
      await untilNextLook(signal);
    }
    return exitCodes.ok;
  } finally {
    context.writeOut(LEAVE_SCREEN);
  }
};

/** Adds `status`. */
export const addStatusCommand = (program: Command, context: CliContext): void => {
  const status = program
    .command("status")
    .description("Show a running agent: replicas, queue, tokens/s.")
    .addHelpText("after", EXAMPLES);
  addAction(status, "status", options, context, async ({ url: agent, json }) => {
    const key = context.env[LOCAL_KEY_VARIABLE] ?? "";
    if (key === "") return failWith(context, exitCodes.config, `set ${LOCAL_KEY_VARIABLE} to the agent's local key`);
    const stopped = new AbortController();
    const stop = () => stopped.abort();
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, stop);
    const ask = askWith(agent, key, stopped.signal);
    return process.stdout.isTTY && !json
      ? view(context, agent, ask, stopped.signal)
      : snapshot(context, agent, json, ask, stopped.signal);
  });
};
