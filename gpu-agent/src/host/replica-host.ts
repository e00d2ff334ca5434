/**
 * The process of one replica: loads the model, pins its device and cores, and speaks the engine protocol on its pipes. It ends when its
 * stdin does, so it never outlives its agent.
 *
 * stdout carries the protocol alone; everything else goes to stderr.
 */
import { createInterface } from "node:readline";
import type { Decoder, DecoderEvent, KvType, Model } from "@lockgate/native";
import { exitCodes } from "../config/exit-codes.ts";
import { type AnswerAddress, formatError, formatEvent } from "./answers.ts";
import { parseCommand } from "./commands.ts";
import { openDecoder } from "./open-decoder.ts";

export interface ReplicaHostOptions {
  readonly model: string;
  readonly slots: number;
  /** Tokens a slot holds; undefined: the model's trained context. */
  readonly contextTokens: number | undefined;
  /** Undefined: one for a tiny model, else one a physical core that this process may use. */
  readonly threads: number | undefined;
  readonly devices: readonly string[] | undefined;
  readonly kvType: KvType | undefined;
  /** CPU cores to run on; undefined: all. */
  readonly cores: readonly number[] | undefined;
}

/** Errors of the native module that end the process, with the exit code that tells the agent whether trying again can help. */
const exitCodeOfNative: Readonly<Record<string, number>> = {
  ERR_INVALID_ARGUMENT: exitCodes.usage,
  ERR_NOT_A_MODEL: exitCodes.dataError,
  ERR_FILE_NOT_FOUND: exitCodes.noInput,
  ERR_UNKNOWN_DEVICE: exitCodes.unavailable,
  ERR_OUT_OF_MEMORY: exitCodes.osError,
  ERR_ADDON_NOT_BUILT: exitCodes.unavailable,
};

/** The exit code that tells what a failed load came from. */
export const exitCodeOfNativeError = (error: unknown): number =>
  exitCodeOfNative[(error as { code?: string }).code ?? ""] ?? exitCodes.software;

interface Running {
  readonly internal: number;
  readonly address: AnswerAddress;
}

/** Runs until stdin ends or QUIT; resolves with the exit code. */
export const runReplicaHost = async (options: ReplicaHostOptions): Promise<number> => {
  let model: Model;
  let decoder: Decoder;
  const batched = options.slots > 1;
  /** The turn that runs in each slot. */
  const running = new Map<number, Running>();
  let turns = 0;

  const onEvents = (events: readonly DecoderEvent[]) => {
    let lines = "";
    for (const event of events) {
      const turn = running.get(event.slot);
      if (turn === undefined || turn.internal !== event.turn)
        throw new Error(`an event of turn ${event.turn}, which does not run`);
      if (event.type === "done" || event.type === "error") running.delete(event.slot);
      lines += formatEvent(event, turn.address);
    }
    process.stdout.write(lines);
  };

  try {
    const opened = await openDecoder(options, onEvents);
    ({ model, decoder } = opened);
    const device = options.devices?.join("+") ?? "auto";
    process.stdout.write(
      `INFO context=${decoder.contextTokens} slots=${options.slots} threads=${opened.threads} kv=${options.kvType ?? "f16"} device=${device} engine=lockgate\n` +
        `READY ${decoder.contextTokens} stop turns${batched ? ` slots=${options.slots}` : ""}\n`,
    );
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n`);
    return exitCodeOfNativeError(error);
  }

  const answerError = (slot: number, tag: number, message: string) =>
    process.stdout.write(formatError(message, { slot: batched ? slot : undefined, tag }));

  const onCommand = (line: string): "quit" | undefined => {
    const command = parseCommand(line);
    switch (command.kind) {
      case "quit":
        return "quit";
      case "stop": {
        const turn = running.get(command.slot);
        if (turn !== undefined && (command.turn === -1 || command.turn === turn.address.tag))
          decoder.stop(turn.internal);
        return;
      }
      case "auxiliary":
        answerError(command.slot, command.turn, "this engine takes no embeddings file");
        return;
      case "invalid":
        answerError(command.slot, command.turn, command.reason);
        return;
      case "unknown":
        process.stderr.write(`an unknown command was skipped: ${command.word.slice(0, 40)}\n`);
        return;
      case "generate": {
        if (running.has(command.slot)) {
          answerError(command.slot, command.turn, `slot ${command.slot} runs another turn`);
          return;
        }
        const internal = ++turns;
        running.set(command.slot, {
          internal,
          address: { slot: batched ? command.slot : undefined, tag: command.turn },
        });
        try {
          const { prompt, maxTokens, slot, salt, sampling } = command;
          decoder.run({ turn: internal, slot, prompt, maxTokens, salt, sampling: withoutUndefined(sampling) });
        } catch (error) {
          running.delete(command.slot);
          answerError(command.slot, command.turn, (error as Error).message);
        }
      }
    }
  };

  for await (const line of createInterface({ input: process.stdin, crlfDelay: Number.POSITIVE_INFINITY })) {
    if (onCommand(line) === "quit") break;
  }
  await decoder.close();
  await model.close();
  return exitCodes.ok;
};

type Defined<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

/** The same object without keys whose value is undefined, as the native contract wants it. */
const withoutUndefined = <T extends object>(value: T): Defined<T> =>
  Object.fromEntries(Object.entries(value).filter(([, held]) => held !== undefined)) as Defined<T>;
