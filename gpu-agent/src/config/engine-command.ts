/**
 * `engine.command`: the words that start another engine in the place of our replica host, and what cannot be said together with it. Pure.
 *
 * The words go to the operating system as they are: no shell, no quoting, no variables but the four placeholders.
 */
import { exitCodes } from "./exit-codes.ts";
import { type ConfigFault, configFault } from "./outcome.ts";

/** What the placeholders of a command stand for, per replica. */
export interface EnginePlace {
  /** Number of the replica, from 0. */
  readonly replica: number;
  /** Its devices as its own process sees them, joined by commas; "" where none were configured. */
  readonly devices: string;
  /** CPU cores that are its own, joined by commas (for taskset or numactl); "" where they could not be shared out. */
  readonly cores: string;
  readonly model: string;
}

/** The command with its placeholders filled in; other braces stay as they are. */
export const fillCommand = (words: readonly string[], place: EnginePlace): readonly string[] =>
  words.map((word) =>
    word.replace(/\{(replica|devices|cores|model)\}/g, (_, name: keyof EnginePlace) => String(place[name])),
  );

interface Chosen {
  readonly engineCommand: readonly string[] | undefined;
  readonly slots: number;
  readonly contextTokens: number | undefined;
  readonly threads: number | undefined;
  readonly kvType: string | undefined;
  readonly devices: readonly string[];
}

/** What would be ignored, or could not work, beside `engine.command`; undefined where all is well. */
export const faultBesideEngineCommand = (chosen: Chosen): ConfigFault | undefined => {
  const { engineCommand, slots, devices } = chosen;
  if (engineCommand === undefined) return undefined;
  const fault = (message: string) => configFault(exitCodes.config, message);
  if (slots !== 1)
    return fault(`slots is ${slots}; with engine.command it must be 1, since the base grammar runs one turn at a time`);
  for (const [name, value] of [
    ["context", chosen.contextTokens],
    ["threads", chosen.threads],
    ["kv-type", chosen.kvType],
  ] as const) {
    if (value !== undefined)
      return fault(`${name} is ${value}, which engine.command cannot be told; put it into the command's own words`);
  }
  if (devices.length === 0 && engineCommand.some((word) => word.includes("{devices}")))
    return fault("engine.command names {devices}, but there are none; give devices = [...] as the engine calls them");
  return undefined;
};
